"""What is measured: graphs, orders, and the options that every benchmark has."""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from longhop import env
from longhop.data import DataConfig, NodeDataset, load
from longhop.graph.build import add_self_loops, from_coo, induced, permute
from longhop.graph.csr import CSRGraph
from longhop.graph.generate import local_random, star
from longhop.graph.order import Order, bfs_order, natural_order
from longhop.partition import cached_order
from longhop.types import InputError

GraphName = Literal["tiny", "local-64k", "local-169k", "local-500k", "arxiv"]
OrderName = Literal["natural", "cluster"]
Malloc = Literal["keep", "train", "default", "kept"]

# Nodes and mean degree before duplicates are merged and self-loops added.
LOCAL = {"tiny": (600, 8), "local-64k": (64_000, 8), "local-169k": (169_000, 14), "local-500k": (500_000, 50)}
ARXIV = "$LONGHOP_DATA/ogbn_arxiv"


@dataclass(frozen=True, kw_only=True)
class CommonOptions:
    """What every benchmark can be told.

    Raises:
        InputError: a value out of range.
    """

    repeat: int = 7
    """Rounds; figures are medians over them."""
    providers: tuple[str, ...] = ()
    """Who takes part, ours always; none given = all that can."""
    threads: int = 0
    """Threads of torch and of the kernels; 0 = torch's own choice."""
    malloc: Malloc = "keep"
    """keep = glibc keeps all freed memory; train = as a training run has it; default = glibc as it comes; kept = keep,
    set up by the environment already."""

    def __post_init__(self) -> None:
        if self.repeat < 1:
            raise InputError(f"--repeat must be at least 1, got {self.repeat}")
        if self.threads < 0:
            raise InputError(f"--threads must be at least 0, got {self.threads}")


@dataclass(frozen=True, kw_only=True)
class GraphOptions(CommonOptions):
    """Options of benchmarks over a graph."""

    graph: GraphName = "local-169k"
    """What to run on."""
    order: OrderName = "natural"
    """Order of the nodes in memory: as they come, or METIS clusters."""


@dataclass(frozen=True, eq=False)
class BenchGraph:
    """A graph in some order.

    Attributes:
        name: as in the results.
        graph: every edge both ways, self-loops included.
        order: ``perm[new] = old`` over the graph as it came.
    """

    name: str
    graph: CSRGraph
    order: Order

    @staticmethod
    def natural(name: str, graph: CSRGraph) -> "BenchGraph":
        """A graph as it came."""
        return BenchGraph(name, graph, natural_order(graph))

    def ordered(self, order: OrderName) -> "BenchGraph":
        """This graph, which must lie as it came, in another order."""
        if order == "natural":
            return self
        found, _ = cached_order(self.graph, order)
        return BenchGraph(self.name, permute(self.graph, found), found)

    def rows(self, nodes: Tensor) -> Tensor:
        """Where the given nodes, numbered as they came, lie."""
        return self.order.inverse()[nodes]


def make_graph(name: GraphName) -> BenchGraph:
    """A graph by name, as it comes.

    Raises:
        InputError: an unknown name, or the data are not here.
    """
    if name in LOCAL:
        return BenchGraph.natural(name, local_random(*LOCAL[name]))
    if name != "arxiv":
        raise InputError(f"--graph {name}: choose from {', '.join(get_args(GraphName))}")
    return BenchGraph.natural(name, add_self_loops(load_arxiv().graph)[0])


def load_arxiv() -> NodeDataset:
    """ogbn-arxiv with every edge both ways.

    Raises:
        InputError: it is not in the folder of published data.
    """
    if not has_arxiv():
        raise InputError("--graph arxiv needs the folder ogbn_arxiv in LONGHOP_DATA; set it, or take local-169k")
    return load(DataConfig(path=ARXIV, symmetrize=True))


def has_arxiv() -> bool:
    """Whether ogbn-arxiv is in the folder of published data."""
    root = env.data_root()
    return root is not None and (root / "ogbn_arxiv").is_dir()


def small_like(given: BenchGraph, num_nodes: int) -> BenchGraph:
    """A graph of the same family, small enough for an oracle in double precision.

    Args:
        given: the graph that is to be timed.
        num_nodes: about how many nodes the small one has.
    """
    name = f"small {given.name}"
    if given.name in LOCAL:
        return BenchGraph.natural(name, local_random(num_nodes, LOCAL[given.name][1], seed=1))
    # A breadth-first ball keeps neighbours together; nodes 0..n-1 of a real graph hardly know each other.
    return BenchGraph.natural(name, induced(given.graph, bfs_order(given.graph).perm[:num_nodes]))


def star_graph(leaves: int) -> BenchGraph:
    """A hub and its leaves, every edge both ways."""
    return BenchGraph.natural(f"star-{leaves}", star(leaves + 1))


def ring_graph(num_nodes: int) -> BenchGraph:
    """Every node joined with the two beside it: as many pairs as a star of ``num_nodes`` leaves."""
    ids = torch.arange(num_nodes)
    beside = (ids + 1) % num_nodes
    graph, _ = from_coo(torch.cat([ids, beside]), torch.cat([beside, ids]), num_nodes)
    return BenchGraph.natural(f"ring-{num_nodes}", graph)


REFERENCE_UP_TO = 1_000_000
"""Pairs up to which the reference takes part unasked."""


def choose(wanted: tuple[str, ...], known: tuple[str, ...]) -> list[str]:
    """Names of the providers that take part, ours first.

    Raises:
        InputError: an unknown one.
    """
    for name in wanted:
        if name not in known:
            raise InputError(f"--providers {name}: choose from {', '.join(known)}")
    return ["native", *(name for name in known if name in (wanted or known) and name != "native")]


def leave_out(names: list[str], reasons: dict[str, str]) -> tuple[list[str], list[str]]:
    """Providers that can take part, and a sentence for each that cannot.

    Args:
        names: who was chosen.
        reasons: by name; an empty one is none.
    """
    notes = [f"{name} left out: {reasons[name]}" for name in names if reasons.get(name)]
    return [name for name in names if not reasons.get(name)], notes


def why_no_reference(options: CommonOptions, pairs: int) -> str:
    """Why the reference does not take part in a large problem; empty when it does."""
    if options.providers or pairs <= REFERENCE_UP_TO:
        return ""
    return f"over {REFERENCE_UP_TO:,} pairs only when asked for"
