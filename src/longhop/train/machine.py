"""What a run's figures depend on: versions, processor, memory."""

import os
import platform
import resource
import sys
from pathlib import Path
from typing import Any

import torch

import longhop
from longhop.ops import native


def versions() -> dict[str, str]:
    """Versions of longhop, torch and Python."""
    return {"longhop": longhop.__version__, "torch": torch.__version__, "python": platform.python_version()}


def kernels() -> str:
    """Which kernels serve the run: the variant of the native library, or ``reference``."""
    loaded = native.load()
    return f"native {loaded.isa}" if isinstance(loaded, native.NativeLibrary) else "reference"


def hardware() -> dict[str, Any]:
    """Processor, usable cores, threads, memory in bytes."""
    return {
        "processor": _field("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


def peak_bytes() -> int:
    """Most memory that this process has held since it started [bytes]."""
    # ru_maxrss of a process that was forked from a larger one starts at the parent's; VmHWM does not.
    line = _field("/proc/self/status", "VmHWM")
    if line:
        return int(line.split()[0]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _field(path: str, name: str) -> str:
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(name)), "")
