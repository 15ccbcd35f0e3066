"""Start the process of a long run anew with the settings of glibc that cannot be made later.

glibc keeps small freed pieces apart, by thread. Among them are the slivers that aligned allocation cuts off
large blocks; a sliver that is kept cannot join the block it came from when that is freed, so that the next
tensor of the same size does not fit. Where freed memory is kept (train/allocator.py) this has cost
up to 90 % of the peak; without that cache 8 to 17 %.

Huge pages, asked for where the system leaves the choice to programs (glibc 2.35 and later), spare page
faults and, in gathers of rows, misses of the TLB.
"""

import os
import platform
import sys
from collections.abc import Sequence

from longhop import env

_VARIABLE = "GLIBC_TUNABLES"
_TUNABLES = {"glibc.malloc.tcache_count": "0", "glibc.malloc.hugetlb": "1"}


def tunables(given: str | None) -> str | None:
    """The variable's new value: what the user has chosen stays; None where nothing is to be added."""
    missing = [f"{name}={value}" for name, value in _TUNABLES.items() if name not in (given or "")]
    return ":".join(filter(None, [given, *missing])) if missing else None


def settings() -> list[str]:
    """Arguments of ``env`` that make these settings for another command."""
    value = tunables(env.glibc_tunables())
    return [] if value is None else [f"{_VARIABLE}={value}"]


def with_tunables(words: Sequence[str] = ()) -> None:
    """Replace this process by the same one (same id, arguments, options of Python) under these settings.

    Does nothing where that was done, elsewhere than under glibc, or when ``words`` turn the allocator off.
    """
    value = tunables(env.glibc_tunables())
    off = "--train.allocator false" in " ".join(words).replace("=", " ").lower()
    if value is None or off or not sys.executable or platform.libc_ver()[0] != "glibc":
        return
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, _VARIABLE: value})
