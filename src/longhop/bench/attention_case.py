"""Graph attention: options, tensors, and the oracle for them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from longhop.bench import checks
from longhop.bench.cases import BenchGraph, GraphOptions
from longhop.bench.checks import SubProblem
from longhop.bench.measure import AutogradProvider
from longhop.graph.order import natural_order
from longhop.layout import AttentionLayout
from longhop.ops.sparse_attention import reference
from longhop.types import InputError

Dtype = Literal["f32", "bf16"]
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
GRADIENTS = ("dq", "dk", "dv", "dtable")
INPUT_SEED = 7
NOISE = 0.2
"""Inputs have size 1; a query with one pair has dq = 0 as the difference of two equal numbers of that size, and
a hub's dk sums many such differences."""


@dataclass(frozen=True, kw_only=True)
class AttentionOptions(GraphOptions):
    """Options of ``longhop bench attention``.

    Raises:
        InputError: a value out of range.
    """

    heads: int = 8
    """H."""
    width: int = 8
    """D, width of one head."""
    dtype: Dtype = "f32"
    """How q, k and v are stored; for bf16 ours in f32 runs too."""
    peer_order: Literal["same", "natural"] = "same"
    """Order in which everybody else gets the graph."""
    dropout: float = 0.0
    """On attention weights; compares ours with ours without dropout and table."""
    table: int = 0
    """Rows of a pair-type table added to the scores; as --dropout."""
    dgl: str = ""
    """Python of an environment with dgl, to let benchmarks/dgl_attention.py take turns with ours."""
    save_graph: Path | None = None
    """File to write the graph, as others see it, and rows of the oracle to (npz)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.heads < 1 or self.width < 1:
            raise InputError(f"--heads and --width must be at least 1, got {self.heads} and {self.width}")
        if not 0 <= self.dropout < 1 or not 0 <= self.table <= 65_536:
            raise InputError(
                f"--dropout must be in [0, 1) and --table in 0..65536, got {self.dropout} and {self.table}"
            )
        if (self.dgl or self.save_graph) and (self.dtype != "f32" or self.with_terms):
            raise InputError("--dgl and --save-graph are for float32 without --dropout and --table; drop those")

    @property
    def with_terms(self) -> bool:
        """Whether scores have more than q.k, or weights are dropped."""
        return self.dropout > 0 or self.table > 0


@dataclass(frozen=True, eq=False)
class AttentionProblem:
    """One attention call and the gradient that comes back.

    Attributes:
        given: the graph.
        layout: its pairs.
        packed: [N, 3, D, H]: q, k and v of a node beside each other, as one Linear leaves them.
        dout: [N, D, H].
        pair_type: None, or uint8 or int32 [E].
        table: None or float32 [T, H].
        dropout: on attention weights.
        seed: int64 [1].
    """

    given: BenchGraph
    layout: AttentionLayout
    packed: Tensor
    dout: Tensor
    pair_type: Tensor | None
    table: Tensor | None
    dropout: float
    seed: Tensor

    @staticmethod
    def make(given: BenchGraph, options: AttentionOptions) -> "AttentionProblem":
        """Seeded inputs; a node has the same ones wherever the order puts it."""
        nodes, pairs = given.graph.num_nodes, given.graph.num_edges
        packed, dout = random_inputs(nodes, options.heads, options.width)
        packed, dout = (given.order.apply(t).to(DTYPES[options.dtype]) for t in (packed, dout))
        pair_type = table = None
        if options.table:
            rng = torch.Generator().manual_seed(INPUT_SEED + 1)
            kind = torch.uint8 if options.table <= 256 else torch.int32
            pair_type = torch.randint(options.table, (pairs,), generator=rng).to(kind)
            table = torch.randn(options.table, options.heads, generator=rng)
        layout = AttentionLayout.from_graph(given.graph)
        seed = torch.tensor([INPUT_SEED])
        return AttentionProblem(given, layout, packed, dout, pair_type, table, options.dropout, seed)

    def qkv(self) -> tuple[Tensor, Tensor, Tensor]:
        """Leaves [N, H, D] over the packed rows, which the kernels read in place."""
        q, k, v = (part.transpose(1, 2).detach().requires_grad_() for part in self.packed.unbind(1))
        return q, k, v

    def separate(self) -> tuple[Tensor, Tensor, Tensor]:
        """Leaves [N, H, D], contiguous: what other libraries are at their best with."""
        q, k, v = (t.detach().contiguous().requires_grad_() for t in self.qkv())
        return q, k, v

    def dout_heads(self) -> Tensor:
        """Gradient of the output, [N, H, D] over [N, D, H]."""
        return self.dout.transpose(1, 2)


def random_inputs(nodes: int, heads: int, width: int) -> tuple[Tensor, Tensor]:
    """Seeded packed [N, 3, D, H] and dout [N, D, H]; benchmarks/dgl_attention.py draws the same."""
    rng = torch.Generator().manual_seed(INPUT_SEED)
    packed = torch.randn(nodes, 3, width, heads, generator=rng)
    return packed, torch.randn(nodes, width, heads, generator=rng)


def oracle(problem: AttentionProblem, sub: SubProblem) -> dict[str, Tensor]:
    """What every provider must give at the sampled rows: out, dq, dk, dv [M, H, D], fp64.

    With all rows in the sub-problem and a table also ``dtable`` [T, H], which no sample can give.
    """
    q, k, v = (t.detach().double() for t in problem.qkv())
    leaves = [t.requires_grad_() for t in (q[sub.queries], k[sub.keys], v[sub.keys])]
    pair_type = None if problem.pair_type is None else problem.pair_type[sub.entries]
    table = None if problem.table is None else problem.table.double().requires_grad_()
    scale = problem.packed.shape[2] ** -0.5
    terms = reference.Terms(None, pair_type, table, None, scale, problem.dropout, problem.seed, sub.queries, sub.keys)
    out, _ = reference.forward(leaves[0], leaves[1], leaves[2], sub.pairs, terms)
    inputs = leaves if table is None else [*leaves, table]
    grads = checks.gradients(out, inputs, problem.dout_heads()[sub.queries].double())
    own, seen = sub.as_queries, sub.as_keys
    want = {"out": out.detach()[own], "dq": grads[0][own], "dk": grads[1][seen], "dv": grads[2][seen]}
    if table is not None and len(sub.rows) == problem.layout.num_rows:
        want["dtable"] = grads[3]
    return want


def at_rows(values: tuple[Tensor, tuple[Tensor, ...]], rows: Tensor) -> dict[str, Tensor]:
    """Output and gradients of a provider at some rows, named as the oracle's."""
    out, grads = values
    found = {"out": out[rows]} | {name: g[rows] for name, g in zip(GRADIENTS[:3], grads[:3], strict=True)}
    return found | dict(zip(GRADIENTS[3:], grads[3:], strict=False))


def tolerance(provider: AutogradProvider) -> float:
    """What rounding allows: ours keeps fp32 inside whatever the storage, others round every step to bf16."""
    if provider.inputs[0].dtype == torch.float32:
        return 2e-5
    return 2e-2 if provider.name.startswith("native") else 1e-1


def in_peer_order(given: BenchGraph, options: AttentionOptions, original: BenchGraph) -> BenchGraph:
    """The graph that everybody else gets."""
    if options.peer_order == "same" or options.order == "natural":
        return given
    return BenchGraph(original.name, original.graph, natural_order(original.graph))
