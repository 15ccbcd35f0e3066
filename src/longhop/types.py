"""Axis letters, shape aliases and error types used everywhere.

One meaning each: ``N`` nodes, ``E`` directed edges (pairs), ``H`` heads, ``D`` width of one head,
``F`` input features, ``C`` classes, ``S`` nodes in one sequence, ``P`` ranks, ``B`` side of a dense
tile, ``G`` global tokens, ``T`` rows of a pair-type table, ``b`` bits.

An edge ``u -> v`` lets ``v`` attend to ``u``: ``v`` is the query (a row of the CSR), ``u`` the key.
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor

NodeFeatures = Float[Tensor, "N F"]
NodeHeads = Float[Tensor, "N H D"]
EdgeIndex = Int[Tensor, "2 E"]
RowPtr = Int[Tensor, "N+1"]
Col = Int[Tensor, "E"]
NodeMask = Bool[Tensor, "N"]


class InputError(ValueError):
    """Something the user handed in is wrong; the command line prints the message and exits with 2.

    The message is one sentence that says what is wrong, where (file, row, field), and what to do.
    """
