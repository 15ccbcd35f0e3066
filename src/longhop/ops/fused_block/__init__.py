"""Bias, activation, dropout and residual in one pass over memory."""

from longhop.ops.fused_block.op import bias_act_dropout_residual

__all__ = ["bias_act_dropout_residual"]
