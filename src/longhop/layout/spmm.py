"""Sum, mean or maximum of each node's neighbours over a layout."""

from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from longhop.layout.layout import AttentionLayout
from longhop.ops.spmm import spmm as spmm_op
from longhop.types import InputError

Reduction = Literal["sum", "mean", "max"]


def spmm(
    layout: AttentionLayout,
    x: Float[Tensor, "Nk F"],
    weight: Float[Tensor, " E"] | None = None,
    reduce: Reduction = "sum",
    k_ids: Int[Tensor, " Nk"] | None = None,
) -> Float[Tensor, "Nq F"]:
    """``out[i] = reduce_j weight_ij x[j]`` over the pairs of the layout; zeros for an empty row.

    Saves nothing for backward where the weight is constant and the reduction sum or mean.

    Args:
        layout: the pairs; without global tokens.
        x: [num_cols, F] float32, bfloat16 or float64.
        weight: None or [E], in the order of ``layout.col``.
        reduce: sum, mean (divided by the number of pairs) or max (ties go to the smallest identity).
        k_ids: None (row numbers) or int64 [num_cols]: identities that break ties of max.

    Returns:
        [N, F] of x's type.

    Raises:
        InputError: shapes that do not fit, an unknown reduction, a layout with global tokens.
    """
    if layout.num_global:
        raise InputError(
            f"spmm takes a layout without global tokens, this one has {layout.num_global}: they are "
            "attention's; build another layout with num_global=0"
        )
    if reduce not in get_args(Reduction):
        raise InputError(f"reduce must be one of {', '.join(get_args(Reduction))}, got {reduce!r}")
    if x.dim() != 2 or x.shape[0] != layout.num_cols:
        raise InputError(f"x must be [num_cols, F] with num_cols = {layout.num_cols}, got {list(x.shape)}")
    if weight is not None and tuple(weight.shape) != (layout.num_pairs,):
        raise InputError(f"weight must be [E] with E = {layout.num_pairs}, got {list(weight.shape)}")
    if k_ids is not None and (k_ids.dtype != torch.int64 or tuple(k_ids.shape) != (layout.num_cols,)):
        raise InputError(f"k_ids must be int64 [{layout.num_cols}], got {k_ids.dtype} {list(k_ids.shape)}")
    # The longest row decides how max stores its winners; elsewhere it would only be a reason to recompile.
    longest = layout.max_degree if reduce == "max" else None
    return spmm_op(
        layout.rowptr,
        layout.col,
        layout.t_rowptr,
        layout.t_col,
        layout.perm,
        x,
        weight=weight,
        reduce=reduce,
        k_ids=k_ids,
        max_degree=longest,
    )
