"""Find a data set on disk, tell its format, read it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from longhop import env
from longhop.data.arrays import read_arrays
from longhop.data.config import DataConfig
from longhop.data.dataset import NodeDataset
from longhop.data.intake import Found, assemble
from longhop.data.names import choose
from longhop.data.npz import npz_format, read_gnn_benchmark, read_heterophilous
from longhop.data.ogb import is_ogb, read_ogb
from longhop.data.planetoid import planetoid_names, read_planetoid
from longhop.data.synthetic import PREFIX, read_synthetic
from longhop.types import InputError

_ROOT = "$LONGHOP_DATA"
# A collection holds data sets in folders of their own, which may keep their files in raw/.
_DEPTH = 2

_READERS: dict[str, Callable[[Path, str], Found]] = {
    "ogb": read_ogb,
    "planetoid": read_planetoid,
    "gnn-benchmark": read_gnn_benchmark,
    "heterophilous": read_heterophilous,
    "arrays": read_arrays,
}


class Candidate(NamedTuple):
    """A data set that lies somewhere: its name, its format, the file or folder of its reader."""

    name: str
    format: str
    path: Path


def load(config: DataConfig) -> NodeDataset:
    """Read the data set of a configuration.

    Args:
        config: path, format, name and preparation. A path that does not exist is also tried as the name of
            a data set in its parent folder: ``planetoid/cora``.

    Returns:
        The data set, checked.

    Raises:
        InputError: nothing there, several data sets and no name, a name that none has, an unknown format,
            and everything the readers and the intake refuse.
    """
    generated = config.path.startswith(PREFIX)
    if generated and config.format not in ("auto", "synthetic"):
        raise InputError(f"{config.path}: generated data have no format {config.format}; drop data.format")
    if generated or config.format == "synthetic":
        return assemble(read_synthetic(config.path), config)
    found = find(config)
    return assemble(_READERS[found.format](found.path, found.name), config)


def find(config: DataConfig) -> Candidate:
    """Which data set a configuration means.

    Raises:
        InputError: as :func:`load` says of names and formats.
    """
    path, name = _resolve(config.path), config.name
    missing = None if path.exists() else InputError(f"{path}: no such file or folder; check data.path")
    if missing is not None:
        if name or not path.parent.is_dir() or not path.name:
            raise missing
        path, name = path.parent, path.name
    choices = [_file(path)] if path.is_file() else list(_folder(path, _DEPTH))
    if config.format != "auto":
        if path.is_file():
            choices = [Candidate(choices[0].name, config.format, choices[0].path)]
        choices = [choice for choice in choices if choice.format == config.format]
    else:
        choices = [choice for choice in choices if choice.format]
    if not choices:
        if missing is not None:
            raise missing
        raise InputError(f"{path}: holds nothing of format {config.format}; {_EXPECTED}")
    if not name and len(choices) > 1:
        names = ", ".join(sorted(choice.name for choice in choices))
        raise InputError(f"{path}: holds several data sets ({names}); choose one by data.name")
    if not name:
        return choices[0]
    chosen = choose(name, [choice.name for choice in choices], f"{path}: data set {name}")
    return next(choice for choice in choices if choice.name == chosen)


_EXPECTED = (
    "expected an OGB folder (raw/edge.csv.gz or raw/data.npz), Planetoid files (ind.NAME.graph), "
    "an npz (adj_matrix, edges or edge_index inside), a .pt of PyG, or synthetic:NAME"
)


def _resolve(path: str) -> Path:
    if path.split("/")[0] != _ROOT:
        return Path(path).expanduser()
    root = env.data_root()
    if root is None:
        raise InputError(f"{path}: LONGHOP_DATA names no folder; set it to where the data sets are")
    return root / path.removeprefix(_ROOT).lstrip("/")


def _file(path: Path) -> Candidate:
    if path.suffix == ".npz":
        return Candidate(path.stem, npz_format(path), path)
    if path.suffix == ".pt":
        return Candidate(path.stem, "arrays", path)
    if path.name.startswith("ind.") and path.name.count(".") >= 2:
        return Candidate(path.name.split(".")[1], "planetoid", path.parent)
    return Candidate(path.stem, "", path)


def _folder(folder: Path, depth: int) -> Iterator[Candidate]:
    """All data sets in a folder and the folders below it."""
    if is_ogb(folder):
        yield Candidate(folder.name, "ogb", folder)
        return
    for name in planetoid_names(folder):
        yield Candidate(name, "planetoid", folder)
    for path in sorted(folder.iterdir()):
        if path.suffix in (".npz", ".pt") and path.is_file():
            yield _quietly(path)
        elif path.is_dir() and depth and not path.name.startswith("."):
            yield from _folder(path, depth - 1)


def _quietly(path: Path) -> Candidate:
    """As :func:`_file`, but a damaged file is reported by its reader, if it is the one chosen."""
    try:
        return _file(path)
    except InputError:
        return Candidate(path.stem, "arrays", path)
