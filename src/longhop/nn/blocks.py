"""Norm, activation, dropout and residual around attention and convolutions.

Every dropout of a model has its own *site*; a mask is a function of (seed, row identity, column, site),
so it does not depend on the order of the nodes.
"""

from typing import Literal, NamedTuple

from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from longhop.layout.attention import PairBias, check_dropout
from longhop.nn.attention import GraphSelfAttention, norm_of
from longhop.nn.convolution import GCNConv, SAGEConv, add_product
from longhop.nn.structure import GraphStructure
from longhop.ops.fused_block import bias_act_dropout_residual
from longhop.ops.linear import linear
from longhop.types import InputError

Activation = Literal["none", "relu", "gelu"]
Norm = Literal["none", "layer", "batch"]

SITES_PER_BLOCK = 4


class Drop(NamedTuple):
    """One dropout call.

    Attributes:
        rate: probability in [0, 1).
        seed: int64 tensor of one element; needed when rate > 0.
        site: number of this call among all that share the seed.
        row_ids: None (row numbers) or int64 [M].
    """

    rate: float = 0.0
    seed: Tensor | None = None
    site: int = 0
    row_ids: Tensor | None = None


NO_DROP = Drop()


def finish(
    x: Float[Tensor, "M F"],
    bias: Tensor | None = None,
    residual: Tensor | None = None,
    *,
    act: Activation = "none",
    drop: Drop = NO_DROP,
) -> Float[Tensor, "M F"]:
    """``dropout(act(x + bias)) + residual`` in one pass, in the residual's type where there is one.

    Args:
        x: [M, F], a matrix product without its bias.
        bias: None or [F].
        residual: None or [M, F].
        act: none, relu or gelu.
        drop: the dropout.

    Returns:
        [M, F].

    Raises:
        InputError: dropout without a usable seed.
    """
    check_dropout(drop.rate, drop.seed)
    # Under autocast a product comes in bfloat16 while the residual stream is float32.
    dtype = x.dtype if residual is None else residual.dtype
    return bias_act_dropout_residual(
        x.to(dtype),
        bias,
        residual,
        act=act,
        dropout=drop.rate,
        seed=drop.seed if drop.rate > 0 else None,
        site=drop.site,
        row_ids=drop.row_ids if drop.rate > 0 else None,
    )


def project(
    x: Float[Tensor, "M F"],
    layer: nn.Linear,
    residual: Tensor | None = None,
    *,
    norm: nn.LayerNorm | None = None,
    act: Activation = "none",
    drop: Drop = NO_DROP,
) -> Float[Tensor, "M K"]:
    """``dropout(layer(f(x))) + residual`` with f a norm, an activation or nothing: one pass over memory.

    Args:
        x: [M, F].
        layer: from F to K, with a bias.
        residual: None or [M, K].
        norm: of x.
        act: of x: none, relu or gelu; not together with a norm.
        drop: the dropout.

    Returns:
        [M, K].

    Raises:
        InputError: dropout without a usable seed.
    """
    check_dropout(drop.rate, drop.seed)
    return linear(
        x,
        layer.weight,
        layer.bias,
        residual,
        norm=norm_of(norm),
        act=act,
        dropout=drop.rate,
        seed=drop.seed if drop.rate > 0 else None,
        site=drop.site,
        row_ids=drop.row_ids if drop.rate > 0 else None,
    )


class RowDropout(nn.Module):
    """Dropout in training, by row identity.

    Args:
        dropout: probability in [0, 1).
        site: number of this dropout among all that share a step's seed.
    """

    def __init__(self, dropout: float, site: int) -> None:
        super().__init__()
        self.dropout = dropout
        self.site = site

    def forward(
        self,
        x: Float[Tensor, "M F"],
        seed: Int[Tensor, "..."] | None = None,
        row_ids: Int[Tensor, " M"] | None = None,
    ) -> Float[Tensor, "M F"]:
        """Drop.

        Args:
            x: [M, F].
            seed: int64 tensor of one element.
            row_ids: None (row numbers) or int64 [M].

        Returns:
            [M, F]; x itself in evaluation.
        """
        if not self.training or self.dropout == 0.0:
            return x
        return finish(x, drop=Drop(self.dropout, seed, self.site, row_ids))


class PreNormBlock(nn.Module):
    """``Z += Drop(W_o Attn(LN(Z)))``, then ``Z += Drop(W_2 GELU(W_1 LN(Z)))``: Graphormer's.

    State dict: ``norm1``, ``attention.qkv``, ``attention.out``, ``norm2``, ``up``, ``down``.

    Args:
        hidden: width h.
        ffn: width between ``up`` and ``down``.
        heads: H.
        dropout: after each of the two halves.
        attention_dropout: on attention weights.
        site: number of this block among all that share a step's seed.
    """

    def __init__(
        self, hidden: int, ffn: int, heads: int, *, dropout: float, attention_dropout: float, site: int
    ) -> None:
        super().__init__()
        self.dropout = dropout
        self.site = site * SITES_PER_BLOCK
        self.norm1 = nn.LayerNorm(hidden)
        self.attention = GraphSelfAttention(hidden, heads, dropout=attention_dropout, site=site)
        self.norm2 = nn.LayerNorm(hidden)
        self.up = nn.Linear(hidden, ffn)
        self.down = nn.Linear(ffn, hidden)

    def forward(
        self,
        z: Float[Tensor, "M h"],
        structure: GraphStructure,
        *,
        bias: PairBias | None = None,
        global_bias: Float[Tensor, "2 G H"] | None = None,
        seed: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "M h"]:
        """One block; arguments and errors as :meth:`GraphSelfAttention.forward`."""
        rate = self.dropout if self.training else 0.0
        ids = structure.row_ids
        mixed = self.attention.attend(z, structure, bias=bias, global_bias=global_bias, seed=seed, norm=self.norm1)
        z = project(mixed, self.attention.out, z, drop=Drop(rate, seed, self.site, ids))
        wide = project(z, self.up, norm=self.norm2)
        return project(wide, self.down, z, act="gelu", drop=Drop(rate, seed, self.site + 1, ids))


class PostNormBlock(nn.Module):
    """``Z = LN(Z + Drop(W_o Attn(Z)))``, then ``Z = LN(Z + W_2 Drop(ReLU(W_1 Z)))``: GT's.

    State dict: ``attention.qkv``, ``attention.out``, ``norm1``, ``up``, ``down``, ``norm2``.

    Args:
        hidden: width h.
        ffn: width between ``up`` and ``down``.
        heads: H.
        dropout: after the attention and inside the feed-forward half.
        attention_dropout: on attention weights.
        site: number of this block among all that share a step's seed.
    """

    def __init__(
        self, hidden: int, ffn: int, heads: int, *, dropout: float, attention_dropout: float, site: int
    ) -> None:
        super().__init__()
        self.dropout = dropout
        self.site = site * SITES_PER_BLOCK
        self.attention = GraphSelfAttention(hidden, heads, dropout=attention_dropout, site=site)
        self.norm1 = nn.LayerNorm(hidden)
        self.up = nn.Linear(hidden, ffn)
        self.down = nn.Linear(ffn, hidden)
        self.norm2 = nn.LayerNorm(hidden)

    def forward(
        self,
        z: Float[Tensor, "M h"],
        structure: GraphStructure,
        *,
        bias: PairBias | None = None,
        global_bias: Float[Tensor, "2 G H"] | None = None,
        seed: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "M h"]:
        """One block; arguments and errors as :meth:`GraphSelfAttention.forward`."""
        rate = self.dropout if self.training else 0.0
        ids = structure.row_ids
        mixed = self.attention.attend(z, structure, bias=bias, global_bias=global_bias, seed=seed)
        z = self.norm1(project(mixed, self.attention.out, z, drop=Drop(rate, seed, self.site, ids)))
        drop = Drop(rate, seed, self.site + 1, ids)
        wide = finish(linear(z, self.up.weight), self.up.bias, act="relu", drop=drop)
        out: Tensor = self.norm2(project(wide, self.down, z))
        return out


class NodeBatchNorm(nn.BatchNorm2d):
    """Batch norm over nodes; a graph of one node, which has no variance, is normalised as in evaluation.

    State dict as ``nn.BatchNorm1d``. Seen as [N, F, 1, 1], torch takes its vectorised path: about 1.5 times
    as fast on a CPU as BatchNorm1d, for the same numbers.
    """

    def forward(self, x: Float[Tensor, "N F"]) -> Float[Tensor, "N F"]:
        """Normalise.

        Args:
            x: [N, F].

        Returns:
            [N, F].
        """
        if self.training and x.shape[0] == 1:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        return super().forward(x[:, :, None, None]).flatten(1)


def make_norm(norm: Norm, width: int) -> nn.Module | None:
    """The norm called ``norm``, None for ``none``.

    Args:
        norm: none, layer or batch.
        width: F.

    Returns:
        A module from [N, F] to [N, F], or None.

    Raises:
        InputError: another name.
    """
    if norm == "none":
        return None
    if norm == "layer":
        return nn.LayerNorm(width)
    if norm == "batch":
        return NodeBatchNorm(width)
    raise InputError(f"norm must be none, layer or batch, got {norm!r}")


class ConvBlock(nn.Module):
    """``Drop(ReLU(Norm(Conv(x) + Linear(x))))``, the Linear only with ``residual``.

    State dict: ``conv``, ``residual``, ``norm``.

    Args:
        conv: the convolution.
        norm: none, layer or batch.
        residual: add a Linear of the block's input to the convolution's output.
        dropout: probability in [0, 1).
        site: number of this block among all that share a step's seed.
    """

    def __init__(self, conv: GCNConv | SAGEConv, *, norm: Norm, residual: bool, dropout: float, site: int) -> None:
        super().__init__()
        self.conv = conv
        self.residual = nn.Linear(conv.in_features, conv.out_features) if residual else None
        self.norm = make_norm(norm, conv.out_features)
        self.dropout = dropout
        self.site = site * SITES_PER_BLOCK

    def forward(
        self,
        x: Float[Tensor, "N F"],
        structure: GraphStructure,
        seed: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "N K"]:
        """One block.

        Args:
            x: [N, in_features].
            structure: what the convolution takes.
            seed: int64 tensor of one element, another one each step; needed in training with dropout.

        Returns:
            [N, out_features].

        Raises:
            InputError: shapes that do not fit, or dropout without a seed.
        """
        out = self.conv.propagate(x, structure)
        bias = self.conv.bias
        if self.residual is not None:
            out = add_product(out, x, self.residual.weight)
            bias = bias + self.residual.bias
        drop = Drop(self.dropout if self.training else 0.0, seed, self.site, structure.row_ids)
        if self.norm is None:
            return finish(out, bias, act="relu", drop=drop)
        return finish(self.norm(out.add_(bias)), act="relu", drop=drop)
