"""Every environment variable that longhop reads, one accessor each. Nothing else calls ``os.environ``."""

import os
from pathlib import Path


def data_root() -> Path | None:
    """``LONGHOP_DATA``: folder of published data sets for tests, benches and recipes; None when unset or absent.

    Without the variable, ``../shared/data`` beside the checkout is used where it exists.
    """
    given = os.environ.get("LONGHOP_DATA")
    candidates = [Path(given)] if given else [Path.cwd() / "../shared/data"]
    for path in candidates:
        if path.is_dir():
            return path.resolve()
    return None


def cache_dir() -> Path:
    """``LONGHOP_CACHE``: where orders and partitions are kept; default ``~/.cache/longhop``."""
    given = os.environ.get("LONGHOP_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "longhop"


def isa() -> str | None:
    """``LONGHOP_ISA``: ``baseline``, ``avx2`` or ``avx512`` forces a build of the kernels, None the best."""
    return os.environ.get("LONGHOP_ISA") or None


def backend() -> str | None:
    """``LONGHOP_BACKEND``: ``reference`` or ``native`` forces one backend of every op; None picks the best."""
    return os.environ.get("LONGHOP_BACKEND") or None


def native_library() -> Path | None:
    """``LONGHOP_NATIVE_LIBRARY``: another build of the CPU kernels (a sanitizer build, say)."""
    given = os.environ.get("LONGHOP_NATIVE_LIBRARY")
    return Path(given) if given else None


def glibc_tunables() -> str | None:
    """``GLIBC_TUNABLES``: settings of glibc made before the process starts; `longhop train` adds one."""
    return os.environ.get("GLIBC_TUNABLES")
