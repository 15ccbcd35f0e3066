"""``longhop doctor``."""

import json
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import tyro

from longhop import env
from longhop.cli.arguments import parse
from longhop.ops import native
from longhop.train.allocator import description
from longhop.train.machine import hardware, versions

_EXTRAS = {
    "scikit-learn": "the digits example (extra demo)",
    "torch-geometric": "PyG data and benchmark rows (extra pyg)",
    "matplotlib": "plots (extra plot)",
}
_BASE = ("numpy", "scipy", "pymetis", "cattrs", "tyro", "rich", "torchmetrics", "safetensors")


@dataclass(frozen=True)
class Arguments:
    """Say what this installation can do: versions, kernels, threads, allocator, extras."""

    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Print JSON."""


def main(words: list[str]) -> int:
    """Run the command; the exit code is 0 also when the slow path would run."""
    arguments = parse(Arguments, words, prog="longhop doctor")
    found = examine()
    print(json.dumps(found, indent=2) if arguments.json else _text(found))
    return 0


def examine() -> dict[str, Any]:
    """Everything that the command prints."""
    loaded = native.load()
    ok = isinstance(loaded, native.NativeLibrary)
    return {
        "versions": versions() | {name: _version(name) for name in _BASE},
        "native": {
            "available": ok,
            "library": str(loaded.path) if isinstance(loaded, native.NativeLibrary) else None,
            "isa": loaded.isa if isinstance(loaded, native.NativeLibrary) else None,
            "reason": None if isinstance(loaded, native.NativeLibrary) else loaded,
        },
        "hardware": hardware(),
        "malloc": description(),
        "extras": {name: _version(name) for name in _EXTRAS},
        "data_root": str(env.data_root()) if env.data_root() else None,
        "cache": str(env.cache_dir()),
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _text(found: dict[str, Any]) -> str:
    native_found, hardware_found = found["native"], found["hardware"]
    if native_found["available"]:
        kernels = f"{native_found['library']} ({native_found['isa']})"
    else:
        kernels = f"none, the slow reference path runs: {native_found['reason']}"
    memory = f"{hardware_found['memory_bytes'] / 2**30:.1f} GiB"
    lines = [
        "versions   " + ", ".join(f"{name} {number or 'missing'}" for name, number in found["versions"].items()),
        f"kernels    {kernels}",
        f"machine    {hardware_found['processor']}, {hardware_found['cores']} cores, {memory}",
        f"threads    {hardware_found['threads']}",
        f"malloc     {found['malloc']}",
        f"data       {found['data_root'] or 'LONGHOP_DATA names no folder'}",
        f"cache      {found['cache']}",
    ]
    for name, number in found["extras"].items():
        lines.append(f"extra      {name} {number or 'not installed'}: {_EXTRAS[name]}")
    return "\n".join(lines)
