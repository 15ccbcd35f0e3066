"""Set the C allocator up so that freed memory is reused instead of going back to the kernel.

By default glibc maps every block over 32 MiB (often much smaller ones) on its own: each is faulted in page
by page, zeroed, and unmapped again, which on CPU costs more than the arithmetic. The thresholds below are
bounds: what is kept beyond them goes back.

Kept memory has holes. On a graph of 169,000 nodes the default peaked at 2.4 GiB for graphormer-slim and at
1.8 for a gcn of width 192 (4 steps and evaluations, glibc 2.36), with 9 and 5 page faults for one of ours;
these settings peaked at 3.1 to 3.3 and at 3.5, and at 2.6 and 2.2 in a process without glibc's thread cache,
which ``longhop train`` therefore is (cli/restart.py).
"""

import ctypes
import functools
from collections.abc import Callable
from typing import Any

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3

MMAP_THRESHOLD = 1 << 30
"""Blocks from this size on [bytes] are mapped one by one; smaller ones come from the heap and are reused."""
TRIM_THRESHOLD = 2**31 - 1
"""Free bytes at the end of the heap above which they go back; the largest that mallopt takes."""
TOP_PAD = 1 << 26
"""Bytes by which the heap grows beyond what was asked for: as room for the next large block."""


@functools.cache
def _libc() -> Any:
    """The C library of this process when it is glibc, else None."""
    try:
        libc = ctypes.CDLL(None)
        libc.gnu_get_libc_version.restype = ctypes.c_char_p
    except (OSError, AttributeError, TypeError):
        return None
    return libc


def description() -> str:
    """Which allocator serves this process: glibc and its version, or what was found in its place."""
    for name in ("jemalloc", "tcmalloc", "mimalloc"):
        if any(name in line for line in _mapped_files()):
            return name
    libc = _libc()
    return f"glibc {libc.gnu_get_libc_version().decode()}" if libc is not None else "not glibc"


def set_up() -> bool:
    """Keep freed memory, within the bounds above; False where the allocator is not glibc's."""
    if not description().startswith("glibc"):
        return False
    mallopt: Callable[[int, int], int] = _libc().mallopt
    wanted = (
        (_M_MMAP_THRESHOLD, MMAP_THRESHOLD),
        (_M_TRIM_THRESHOLD, TRIM_THRESHOLD),
        (_M_TOP_PAD, TOP_PAD),
    )
    accepted = [mallopt(option, value) == 1 for option, value in wanted]
    return all(accepted)


def release() -> None:
    """Give free pages back to the kernel: called once after preparation, whose temporaries are larger."""
    if description().startswith("glibc"):
        _libc().malloc_trim(ctypes.c_size_t(0))


def _mapped_files() -> list[str]:
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            return file.readlines()
    except OSError:
        return []
