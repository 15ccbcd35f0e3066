"""Loads the CPU kernels (a shared library with a C ABI) and says why when it cannot.

``ctypes.CDLL`` releases the GIL for the length of a call. Pointers and sizes are checked by the
``native_impl.py`` of each op before they get here.
"""

import ctypes
import functools
import sysconfig
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from longhop import env

ABI_VERSION = 3
_ISAS = ("baseline", "avx2", "avx512")  # each machine can run those before its best one too
_NAME = "liblonghop_native.so"
_STATUS = {
    1: "the kernel does not support these arguments",
    2: "the kernel ran out of memory",
    3: "an offset, column or permutation entry is out of range",
}


class NativeLibrary:
    """The loaded library and the instruction-set variant that its calls go to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle = ctypes.CDLL(str(path))
        found = self._handle.longhop_abi_version()
        if found != ABI_VERSION:
            raise OSError(f"{path} has ABI version {found}, this longhop needs {ABI_VERSION}; reinstall longhop")
        usable = _ISAS[: self._handle.longhop_best_variant() + 1]
        self.isa = env.isa() or usable[-1]
        if self.isa not in _ISAS:
            raise OSError(f"LONGHOP_ISA={self.isa}: choose {', '.join(_ISAS[:-1])} or {_ISAS[-1]}")
        if self.isa not in usable:
            raise OSError(f"LONGHOP_ISA={self.isa}, but this machine or this build has {usable[-1]} at best")

    def kernel(self, name: str) -> Callable[..., int]:
        """The C function ``name`` of the chosen variant."""
        return getattr(self._handle, f"{name}_{self.isa}")  # type: ignore[no-any-return]


def _candidates() -> list[Path]:
    given = env.native_library()
    if given is not None:
        return [given]
    # A CMake build by hand leaves the library beside the sources; pip puts it in site-packages, for an
    # editable install too, whose sources are elsewhere.
    roots = [Path(__file__).parent, Path(sysconfig.get_path("platlib")) / "longhop" / "ops"]
    return [root / "_lib" / _NAME for root in roots]


@functools.cache
def load() -> NativeLibrary | str:
    """The library, or the reason why there is none (loaded once a process)."""
    paths = _candidates()
    path = next((p for p in paths if p.is_file()), None)
    if path is None:
        wanted = "a C++17 compiler with OpenMP is needed, `pip install -v` shows what failed"
        return f"no library at {paths[0]}: it was not built at install ({wanted})"
    try:
        return NativeLibrary(path)
    except OSError as error:
        return str(error)


def library() -> NativeLibrary | None:
    """The library or None; warns once when it is missing."""
    loaded = load()
    if isinstance(loaded, NativeLibrary):
        return loaded
    _warn_once(loaded)
    return None


@functools.cache
def _warn_once(reason: str) -> None:
    warnings.warn(f"longhop runs its slow reference path: {reason}", RuntimeWarning, stacklevel=4)


def pointer(tensor: Tensor | None) -> ctypes.c_void_p:
    """Address of a tensor's first element; null for None."""
    return ctypes.c_void_p(None if tensor is None else tensor.data_ptr())


_CTYPES = {"p": ctypes.c_void_p, "i": ctypes.c_int64, "f": ctypes.c_float, "d": ctypes.c_double}


def call(name: str, signature: str, *args: Any) -> None:
    """Call kernel ``name``; ``signature`` has one letter an argument.

    Args:
        name: kernel without its variant's suffix.
        signature: p = tensor or None (its address), i = int64, f = float, d = double. The number of
            threads, ``torch.get_num_threads()``, is passed after ``args`` as an int64.
        *args: one a letter.

    Raises:
        RuntimeError: the kernel refused.
    """
    lib = library()
    if lib is None or len(signature) != len(args):
        raise RuntimeError(f"native kernel {name} called without a library or with wrong arguments")
    values = [pointer(a) if s == "p" else _CTYPES[s](a) for s, a in zip(signature, args, strict=True)]
    status = lib.kernel(name)(*values, ctypes.c_int64(torch.get_num_threads()))
    if status == 2:
        raise MemoryError(f"{name}: {_STATUS[status]}")
    if status:
        raise RuntimeError(f"{name}: {_STATUS.get(status, f'status {status}')}")
