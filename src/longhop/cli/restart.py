"""Start the process of a long run anew with the one setting of glibc that cannot be made later.

glibc keeps small freed pieces apart, by thread. Among them are the slivers that aligned allocation cuts off
large blocks; a sliver that is kept cannot join the block it came from when that is freed, so that the next
tensor of the same size does not fit. Where freed memory is kept (train/allocator.py) this has cost
up to 90 % of the peak; without that cache 8 to 17 %.
"""

import os
import platform
import sys
from collections.abc import Sequence

from longhop import env

_VARIABLE = "GLIBC_TUNABLES"
_TUNABLE = "glibc.malloc.tcache_count"


def tunables(given: str | None) -> str | None:
    """The variable's new value; None where the user has chosen, or an earlier start has."""
    if given and _TUNABLE in given:
        return None
    return ":".join(filter(None, [given, f"{_TUNABLE}=0"]))


def without_thread_cache(words: Sequence[str] = ()) -> None:
    """Replace this process by the same one (same id, arguments, options of Python) without glibc's cache.

    Does nothing where that was done, elsewhere than under glibc, or when ``words`` turn the allocator off.
    """
    value = tunables(env.glibc_tunables())
    off = "--train.allocator false" in " ".join(words).replace("=", " ").lower()
    if value is None or off or not sys.executable or platform.libc_ver()[0] != "glibc":
        return
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, _VARIABLE: value})
