"""From node states to outputs."""

from jaxtyping import Float
from torch import Tensor, nn

from longhop.nn.blocks import project


class NormLinearHead(nn.Module):
    """``W LN(z) + b``. State dict: ``norm``, ``linear``.

    Args:
        hidden: width h.
        num_outputs: C.
    """

    def __init__(self, hidden: int, num_outputs: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        self.linear = nn.Linear(hidden, num_outputs)

    def forward(self, z: Float[Tensor, "N h"]) -> Float[Tensor, "N C"]:
        """Read out.

        Args:
            z: [N, h].

        Returns:
            [N, C].
        """
        return project(z, self.linear, norm=self.norm)


class MLPHead(nn.Module):
    """h -> h/2 -> h/4 -> C with ReLU between. State dict: ``first``, ``second``, ``linear``.

    Args:
        hidden: width h, 4 or more.
        num_outputs: C.
    """

    def __init__(self, hidden: int, num_outputs: int) -> None:
        super().__init__()
        self.first = nn.Linear(hidden, hidden // 2)
        self.second = nn.Linear(hidden // 2, hidden // 4)
        self.linear = nn.Linear(hidden // 4, num_outputs)

    def forward(self, z: Float[Tensor, "N h"]) -> Float[Tensor, "N C"]:
        """Read out.

        Args:
            z: [N, h].

        Returns:
            [N, C].
        """
        z = project(project(z, self.first), self.second, act="relu")
        return project(z, self.linear, act="relu")
