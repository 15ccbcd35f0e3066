"""Folders that hold a model and all that its training needs to go on, replaced in one rename.

``model.safetensors`` (weights), ``state/`` (other tensors, those of the optimiser and of random numbers,
through torch.distributed.checkpoint), ``state.json`` (numbers). ``last/`` also holds ``best.safetensors``,
the best weights so far, so that it is whole without ``best/``, which has weights and numbers only.
"""

import contextlib
import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from longhop.train.journal import plain, write_atomic
from longhop.types import InputError

Tensors = dict[str, Tensor]
WEIGHTS, BEST, STATE, NUMBERS = "model.safetensors", "best.safetensors", "state", "state.json"


def replace_folder(folder: Path, fill: Callable[[Path], None]) -> None:
    """Put a folder in place of an old one; a crash at any point leaves a whole one for :func:`find`.

    Args:
        folder: what to replace.
        fill: writes the content into the new, empty folder that it is given.

    Raises:
        OSError: it could not be written (a full disk); the old one is still there.
    """
    partial, old = folder.with_name(folder.name + ".tmp"), folder.with_name(folder.name + ".old")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        fill(partial)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    if folder.exists():
        # A rename cannot replace a folder that is not empty: for an instant only .old exists.
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
    partial.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def find(folder: Path) -> Path | None:
    """The whole folder that :func:`replace_folder` left, or None."""
    for candidate in (folder, folder.with_name(folder.name + ".old")):
        if (candidate / NUMBERS).is_file():
            return candidate
    return None


def save_weights(weights: Tensors, path: Path) -> None:
    """Write weights to a safetensors file and wait until they are on the disk.

    Raises:
        OSError: it could not be written.
    """
    try:
        save_file({name: tensor.contiguous() for name, tensor in weights.items()}, path)
    except SafetensorError as error:
        raise OSError(f"{path}: {error}") from error
    with path.open("rb") as file:
        os.fsync(file.fileno())


def load_weights(path: Path) -> Tensors:
    """Read a safetensors file.

    Raises:
        InputError: it is missing or damaged.
    """
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path}: cannot be read ({error}); restore the file or train again") from None


def apply_weights(model: nn.Module, path: Path) -> None:
    """Load a safetensors file into a model.

    Raises:
        InputError: the file is missing, damaged, or of another model.
    """
    try:
        model.load_state_dict(load_weights(path))
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: holds the weights of another model ({reason}); train again") from None


def save_numbers(values: dict[str, Any], folder: Path) -> None:
    """Write ``state.json``, by which :func:`find` knows a whole folder: call it last."""
    write_atomic(folder / NUMBERS, json.dumps(plain(values), indent=2) + "\n")


def load_numbers(folder: Path) -> dict[str, Any]:
    """Read ``state.json``.

    Raises:
        InputError: it is missing or damaged.
    """
    try:
        values: dict[str, Any] = json.loads((folder / NUMBERS).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{folder / NUMBERS}: cannot be read ({error}); restore it or train again") from None
    return values


def save_tensors(tensors: Tensors, folder: Path) -> None:
    """Write named tensors through torch.distributed.checkpoint; no process group is needed.

    Raises:
        OSError: they could not be written.
    """
    try:
        with _single_process():
            save(dict(tensors), storage_writer=FileSystemWriter(folder), no_dist=True)
    except CheckpointException as error:
        raise OSError(f"{folder}: {_reason(error)}") from error


def load_tensors(folder: Path) -> Tensors:
    """Read what :func:`save_tensors` wrote.

    Raises:
        InputError: the folder is missing or damaged.
    """
    try:
        reader = FileSystemReader(folder)
        known = reader.read_metadata().state_dict_metadata
        tensors = {
            name: torch.empty(entry.size, dtype=entry.properties.dtype)
            for name, entry in known.items()
            if isinstance(entry, TensorStorageMetadata)
        }
        with _single_process():
            load(tensors, storage_reader=reader, no_dist=True)
    except (OSError, EOFError, UnpicklingError, CheckpointException) as error:
        raise InputError(f"{folder}: cannot be read ({_reason(error)}); restore it or train again") from None
    return tensors


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> Tensors:
    """The optimiser's state, one name a tensor: ``optimizer.PARAMETER.KEY``."""
    state = optimizer.state_dict()["state"]
    return {f"optimizer.{i}.{key}": tensor for i, entry in state.items() for key, tensor in entry.items()}


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Tensors) -> None:
    """Put back what :func:`optimizer_tensors` gave; rates and decays stay those of ``optimizer``."""
    state: dict[int, Tensors] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimizer."):
            _, index, key = name.split(".", 2)
            state.setdefault(int(index), {})[key] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def link_or_copy(source: Path, target: Path) -> None:
    """Give a file a second name where the file system can, else a copy."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _reason(error: BaseException) -> str:
    """Torch wraps what went wrong, by rank, in a text of many lines."""
    if isinstance(error, CheckpointException) and error.failures:
        error = next(iter(error.failures.values()))[0]
    return f"{type(error).__name__}: {error}"


@contextlib.contextmanager
def _single_process() -> Iterator[None]:
    """Torch warns on every save that it assumes one process, also when told so by ``no_dist``."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled", category=UserWarning)
        yield
