"""What every model offers to a training loop."""

from abc import ABC, abstractmethod

from jaxtyping import Float, Int
from torch import Tensor, nn

from longhop.graph.csr import CSRGraph
from longhop.nn.structure import GraphStructure
from longhop.types import InputError


class NodeModel(nn.Module, ABC):
    """One output row a node, from features and a graph.

    ``structure = model.prepare(graph)`` once a run, ``model(x, structure, seed)`` each step.

    Args:
        in_features: F.
        num_outputs: C.

    Raises:
        InputError: a size below 1.
    """

    def __init__(self, in_features: int, num_outputs: int) -> None:
        super().__init__()
        for name, size in (("in_features", in_features), ("num_outputs", num_outputs)):
            if size < 1:
                raise InputError(f"{name} must be 1 or more, got {size}")
        self.in_features = in_features
        self.num_outputs = num_outputs

    @abstractmethod
    def prepare(self, graph: CSRGraph, node_ids: Tensor | None = None) -> GraphStructure:
        """What :meth:`forward` needs of the graph: pairs, self-loops, weights, encodings. Eager, once a run.

        Args:
            graph: as it came, square; self-loops are added where the model wants them.
            node_ids: int64 [N] identity of each row when the graph was reordered, else None.

        Returns:
            The structure.

        Raises:
            InputError: no node, or a graph that is not square.
        """

    @abstractmethod
    def forward(
        self,
        x: Float[Tensor, "N F"],
        structure: GraphStructure,
        seed: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "N C"]:
        """Outputs of all nodes.

        Args:
            x: [N, F].
            structure: from :meth:`prepare`.
            seed: int64 tensor of one element, another one each step; needed in training with dropout.

        Returns:
            [N, C], not normalised (logits).

        Raises:
            InputError: shapes that do not fit, or dropout without a seed.
        """

    def num_parameters(self) -> int:
        """Trainable numbers."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)


def check_graph(graph: CSRGraph) -> None:
    """Refuse a graph that no model can train on.

    Args:
        graph: as it came.

    Raises:
        InputError: no node, or not square.
    """
    if graph.num_nodes == 0:
        raise InputError("the graph has no nodes; a model needs one at least")
    if graph.num_nodes != graph.num_cols:
        raise InputError(f"the graph must be square, got {graph.num_nodes} rows and {graph.num_cols} columns")


def check_range(config: object, **bounds: tuple[float, float]) -> None:
    """Refuse a setting outside its range ``low <= value < high``.

    Args:
        config: a config dataclass.
        **bounds: (low, high) a field.

    Raises:
        InputError: names the model, the field and its value.
    """
    for field, (low, high) in bounds.items():
        value = getattr(config, field)
        if not low <= value < high:
            limit = "" if high == float("inf") else f" and below {high:g}"
            name = getattr(config, "name", type(config).__name__)
            raise InputError(f"model {name}: {field} must be at least {low:g}{limit}, got {value:g}")
