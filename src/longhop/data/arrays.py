"""Data held as named arrays: PyG's ``Data``, a dictionary, a ``.pt`` or ``.npz`` file of either."""

import pickle
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse
import torch

from longhop.data.config import DataConfig, Features
from longhop.data.dataset import NodeDataset
from longhop.data.files import Array, Npz, reading
from longhop.data.intake import Found, assemble, relabel
from longhop.data.unpickle import numpy_rebuilder
from longhop.types import InputError

_NAMES = {
    "x": ("x", "node_features", "node_feat", "feat"),
    "y": ("y", "node_labels", "node_label", "labels", "label"),
    "train": ("train_mask", "train_masks", "train_idx", "train"),
    "val": ("val_mask", "val_masks", "valid_mask", "val_idx", "valid_idx", "val", "valid"),
    "test": ("test_mask", "test_masks", "test_idx", "test"),
}


def from_arrays(
    data: Any,
    *,
    name: str = "data",
    symmetrize: bool = False,
    split: int = 0,
    features: Features = "raw",
    seed: int = 0,
) -> NodeDataset:
    """A data set from a PyG ``Data`` or a dictionary of arrays (torch, numpy, scipy or lists).

    Names: ``edge_index`` [2, E] or ``edges`` [E, 2]; ``x`` [N, F]; ``y`` [N], [N, 1] or [N, T];
    ``edge_weight`` [E]; ``{train,val,test}_mask`` as masks [N] or [N, S] or as lists of ids;
    ``num_nodes``. With ``node_ids`` [N] (numbers or strings, any order) edges are given in those ids;
    with PyG's ``n_id`` edges are 0..N-1 already. Either way outputs speak those ids.

    Args:
        data: the arrays.
        name: what messages and results call it.
        symmetrize: as the other options, see :class:`longhop.data.DataConfig`.
        split: column of the masks to train on.
        features: preparation of ``x``.
        seed: of the random split, where ``data`` has none.

    Raises:
        InputError: no edges or labels, or anything that does not fit together.
    """
    config = DataConfig(path=name, symmetrize=symmetrize, split=split, features=features, seed=seed)
    return assemble(find_arrays(_as_mapping(data, name), name), config)


def read_arrays(path: Path, name: str) -> Found:
    """Read a ``.npz`` of named arrays, or a ``.pt`` that holds them or a PyG ``Data`` (with weights_only)."""
    given = Npz(path) if path.suffix == ".npz" else _as_mapping(_load_pt(path), str(path))
    return find_arrays(given, str(path), name)


def find_arrays(data: Mapping[Any, Any], where: str, name: str = "", *, undirected: bool = False) -> Found:
    """Pick a data set out of named arrays.

    Args:
        data: see :func:`from_arrays`.
        where: how messages name it.
        name: of the data set; ``where`` when empty.
        undirected: each edge stands for both directions.

    Raises:
        InputError: no edges or labels, or arrays of the wrong shape.
    """
    keys = {part: next((key for key in names if data.get(key) is not None), "") for part, names in _NAMES.items()}
    found = {part: as_array(data[key], f"{where}[{key}]") for part, key in keys.items() if key}
    places = {part: f"{where}[{key}]" for part, key in keys.items() if key}
    src, dst, places["edges"] = _edges(data, where)
    if "y" not in found:
        raise InputError(f"{where}: no labels among {_listed(data)}; give y")
    ids = {key: as_array(data[key], where) for key in ("node_ids", "n_id") if data.get(key) is not None}
    node_ids = next(iter(ids.values()), None)
    if "node_ids" in ids:
        src, dst = (relabel(end, ids["node_ids"], places["edges"]) for end in (src, dst))
    weight = data.get("edge_weight")
    notes = () if data.get("edge_attr") is None else ("edge_attr is not read; give weights as edge_weight",)
    return Found(
        name=name or where,
        src=src,
        dst=dst,
        num_nodes=_num_nodes(data, found, node_ids, where),
        x=found.get("x"),
        y=found["y"],
        weight=None if weight is None else as_array(weight, f"{where}[edge_weight]").reshape(-1),
        splits={part: found[part] for part in ("train", "val", "test") if part in found},
        undirected=undirected,
        node_ids=node_ids,
        where=places,
        notes=notes,
    )


def as_array(value: Any, where: str) -> Array:
    """Any array-like as numpy; sparse becomes dense float32.

    Raises:
        InputError: ragged lists or objects.
    """
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        dense = value.to_dense() if value.layout != torch.strided else value
        if dense.dtype in (torch.bfloat16, torch.float16):
            dense = dense.float()
        value = dense.numpy()
    elif isinstance(value, scipy.sparse.sparray | scipy.sparse.spmatrix):
        sparse: Any = value
        value = sparse.astype(np.float32, copy=False).toarray()
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InputError(f"{where}: not an array ({error}); give equal rows of numbers") from error
    if array.dtype.hasobject:
        raise InputError(f"{where}: holds {type(value).__name__} objects, not numbers; give a plain array")
    return array


def _edges(data: Mapping[Any, Any], where: str) -> tuple[Array, Array, str]:
    key = next((key for key in ("edge_index", "edges") if data.get(key) is not None), "")
    if not key:
        raise InputError(f"{where}: no edges among {_listed(data)}; give edge_index [2, E]")
    place = f"{where}[{key}]"
    edges = as_array(data[key], place)
    pairs = edges.T if key == "edges" else edges
    if pairs.ndim != 2 or pairs.shape[0] != 2:
        wanted = "[E, 2]" if key == "edges" else "[2, E]"
        raise InputError(f"{place}: shape {list(edges.shape)} instead of {wanted}; turn or mend it")
    return pairs[0], pairs[1], place


def _num_nodes(data: Mapping[Any, Any], found: Mapping[str, Array], node_ids: Array | None, where: str) -> int:
    if data.get("num_nodes") is not None:
        count = as_array(data["num_nodes"], f"{where}[num_nodes]")
        if count.size != 1 or count.dtype.kind not in "iu":
            raise InputError(f"{where}[num_nodes]: must be one whole number, got {data['num_nodes']!r}")
        return int(count.reshape(-1)[0])
    # Not by x, whose axes are the ones that get mixed up.
    rows = node_ids if data.get("node_ids") is not None and node_ids is not None else found["y"]
    return len(np.atleast_1d(rows))


def _listed(data: Iterable[Any]) -> str:
    return ", ".join(sorted(map(str, data))) or "nothing"


def _as_mapping(data: Any, where: str) -> Mapping[Any, Any]:
    """Named arrays out of what libraries wrap around them."""
    if isinstance(data, tuple | list) and data:
        # PyG's (data, slices[, class]) and OGB's (graph, labels).
        slices = data[1] if len(data) > 1 else None
        if isinstance(slices, Mapping) and any(len(cuts) > 2 for cuts in slices.values()):
            raise InputError(f"{where}: holds several graphs; one graph is needed here")
        first = _as_mapping(data[0], where)
        return first if slices is None or isinstance(slices, Mapping) else {**first, "y": slices}
    if isinstance(data, Mapping):
        return {**data, **data["graph"]} if isinstance(data.get("graph"), Mapping) else data
    # A PyG Data keeps its arrays in data._store._mapping, and so does the stand-in.
    store = getattr(data, "__dict__", {}).get("_store")
    mapping = getattr(store, "__dict__", {}).get("_mapping")
    if isinstance(mapping, Mapping):
        return dict(mapping)
    raise InputError(f"{where}: holds a {type(data).__name__}; give a PyG Data or a dictionary of arrays")


class _StandIn(SimpleNamespace):
    """Takes the place of PyG's classes in a ``.pt``: PyG need not be installed, nor its code run."""


def _admitted() -> list[Any]:
    """What a ``.pt`` may name beyond torch's own list, under names that collide with nobody's additions."""
    pyg = {
        "data": ("Data", "DataEdgeAttr", "DataTensorAttr"),
        "storage": ("BaseStorage", "NodeStorage", "EdgeStorage", "GlobalStorage"),
    }
    stand_ins = [(_StandIn, f"torch_geometric.data.{module}.{name}") for module, names in pyg.items() for name in names]
    dtypes = {type(np.dtype(code)) for code in "?bhilqBHILQefd"}
    rebuild = numpy_rebuilder("multiarray", "_reconstruct")
    return [
        *stand_ins,
        (np.ndarray, "numpy.ndarray"),
        (np.dtype, "numpy.dtype"),
        *((rebuild, f"numpy.{core}.multiarray._reconstruct") for core in ("core", "_core")),
        *((kind, f"numpy.dtypes.{kind.__name__}") for kind in dtypes),
    ]


def _load_pt(path: Path) -> Any:
    try:
        with reading(path), torch.serialization.safe_globals(_admitted()):
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        reason = str(error).split("WeightsUnpickler error: ")[-1].split(" was not")[0].splitlines()[0]
        raise InputError(
            f"{path}: refused or damaged ({reason}); save a dictionary of tensors with torch.save"
        ) from error
    except (RuntimeError, LookupError, TypeError, AttributeError, AssertionError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path}: truncated or damaged ({reason}); fetch it again") from error
