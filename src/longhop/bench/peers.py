"""What people use today, on the same tensors: gather and scatter in torch, PyG, torch.sparse.

PyG is imported when a function that needs it is called; its own deprecation warnings are not the user's.
"""

import contextlib
import importlib.util
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from longhop.graph.csr import CSRGraph
from longhop.types import InputError


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Other libraries' warnings are not shown: nothing that the user did causes them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def why_no_pyg() -> str:
    """Why PyG cannot take part; empty when it can."""
    return "" if importlib.util.find_spec("torch_geometric") else "torch-geometric is not installed"


def pyg(module: str = "torch_geometric.nn") -> Any:
    """A module of PyG.

    Raises:
        InputError: it is not installed.
    """
    if why_no_pyg():
        raise InputError("the PyG rows need torch-geometric; install longhop[pyg] or leave pyg out of --providers")
    with quiet():
        return importlib.import_module(module)


def gather_scatter_attention(q: Tensor, k: Tensor, v: Tensor, edge_index: Tensor) -> Tensor:
    """Graph attention in plain torch: gather rows for every edge, softmax by scatter, scatter-add.

    Args:
        q: [N, H, D].
        k: [N, H, D].
        v: [N, H, D].
        edge_index: int64 [2, E], source (key) and target (query).

    Returns:
        [N, H, D].
    """
    source, target = edge_index
    score = (q[target] * k[source]).sum(-1) / math.sqrt(q.shape[2])
    index = target[:, None].expand_as(score)
    lowest = score.new_full(q.shape[:2], -torch.inf)
    top = lowest.scatter_reduce(0, index, score.detach(), "amax")
    weight = (score - top[target]).exp()
    total = torch.zeros_like(lowest).index_add(0, target, weight)
    weighted = torch.zeros_like(v).index_add(0, target, v[source] * weight[..., None])
    # A query without an edge has total 0.
    return weighted / total.clamp_min(torch.finfo(total.dtype).tiny)[..., None]


def transformer_conv_attention(
    heads: int, width: int, edge_index: Tensor
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """PyG's TransformerConv from its projections on: ``propagate`` on given q, k and v.

    That is TransformerConv's own message function, softmax and aggregation; its Linears play no part.

    Args:
        heads: H.
        width: D.
        edge_index: int64 [2, E], source (key) and target (query).

    Returns:
        A function from q, k, v [N, H, D] to [N, H, D].
    """
    with quiet():
        conv = pyg().TransformerConv(heads * width, width, heads=heads, root_weight=False)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out: Tensor = conv.propagate(edge_index, query=q, key=k, value=v, edge_attr=None)
        return out

    return attend


def sparse_matrix(graph: CSRGraph, weight: Tensor | None, index: torch.dtype, values: torch.dtype) -> Tensor:
    """The graph as a torch.sparse CSR tensor whose rows are queries; PyG calls it ``adj_t``.

    Args:
        graph: the graph.
        weight: None (ones) or [E].
        index: int32, what the matrix product is fastest with, or int64, what PyG makes.
        values: type of the values.
    """
    numbers = torch.ones(graph.num_edges, dtype=values) if weight is None else weight.to(values)
    with quiet():
        return torch.sparse_csr_tensor(
            graph.rowptr.to(index),
            graph.col.to(index),
            numbers,
            size=(graph.num_nodes, graph.num_cols),
            check_invariants=False,
        )


def sparse_product(matrix: Tensor, reduce: str) -> Callable[[Tensor], Tensor]:
    """``torch.sparse.mm``, with a reduction where it is not the sum."""

    def multiply(x: Tensor) -> Tensor:
        with quiet():
            out: Tensor = torch.sparse.mm(matrix, x, *([] if reduce == "sum" else [reduce]))
        return out

    return multiply


def pyg_messages(edge_index: Tensor, weight: Tensor | None, reduce: str) -> Callable[[Tensor], Tensor]:
    """PyG's path over an ``edge_index``: gather a row for every edge, scatter (``SimpleConv``)."""
    with quiet():
        conv = pyg().SimpleConv(aggr=reduce)

    def propagate(x: Tensor) -> Tensor:
        out: Tensor = conv(x, edge_index, weight)
        return out

    return propagate


def pyg_product(matrix: Tensor, reduce: str) -> Callable[[Tensor], Tensor]:
    """PyG's path over a torch.sparse ``adj_t``."""
    multiply = pyg("torch_geometric.utils").spmm

    def product(x: Tensor) -> Tensor:
        with quiet():
            out: Tensor = multiply(matrix, x, reduce)
        return out

    return product
