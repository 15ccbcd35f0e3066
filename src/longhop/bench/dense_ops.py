"""``longhop bench dense-ops``: bias, GELU, dropout and residual, as they follow Linears in a transformer."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from longhop.bench import checks
from longhop.bench.cases import CommonOptions, choose
from longhop.bench.measure import AutogradProvider, Mode, Provider, extra_peak
from longhop.bench.results import Report
from longhop.bench.timing import Case, first_run, measure, peak_of, set_up
from longhop.ops.dispatch import use_backend
from longhop.ops.fused_block import bias_act_dropout_residual
from longhop.types import InputError

KERNEL = "bias_gelu_dropout_residual"
TOLERANCE = 1e-5
_SEED = 13
_NAMES = ("dx", "dbias", "dresidual")


@dataclass(frozen=True, kw_only=True)
class DenseOptions(CommonOptions):
    """Options of ``longhop bench dense-ops``.

    Raises:
        InputError: a value out of range.
    """

    rows: int = 169_000
    """N."""
    width: int = 64
    """F."""
    dropout: float = 0.1
    """Probability of dropping an element."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rows < 1 or self.width < 1 or not 0 <= self.dropout < 1:
            raise InputError(
                f"--rows and --width must be at least 1 and --dropout in [0, 1), got {self.rows}, "
                f"{self.width} and {self.dropout}"
            )


@dataclass(frozen=True, eq=False)
class DenseProblem:
    """One call and the gradient that comes back.

    Attributes:
        x: [N, F].
        bias: [F].
        residual: [N, F].
        dout: [N, F].
        dropout: probability.
        seed: int64 [1].
        row_ids: int64 [N], identities behind the mask.
    """

    x: Tensor
    bias: Tensor
    residual: Tensor
    dout: Tensor
    dropout: float
    seed: Tensor
    row_ids: Tensor

    @staticmethod
    def make(options: DenseOptions) -> "DenseProblem":
        """Seeded inputs."""
        rng = torch.Generator().manual_seed(_SEED)
        shape = (options.rows, options.width)
        x, residual, dout = (torch.randn(shape, generator=rng) for _ in range(3))
        bias = torch.randn(options.width, generator=rng)
        return DenseProblem(x, bias, residual, dout, options.dropout, torch.tensor([_SEED]), torch.arange(options.rows))

    def leaves(self) -> tuple[Tensor, Tensor, Tensor]:
        """x, bias and residual as leaves."""
        x, bias, residual = (t.detach().requires_grad_() for t in (self.x, self.bias, self.residual))
        return x, bias, residual

    def at(self, rows: Tensor) -> "DenseProblem":
        """Some rows alone, with their masks."""
        x, residual, dout, ids = (t[rows] for t in (self.x, self.residual, self.dout, self.row_ids))
        return replace(self, x=x, residual=residual, dout=dout, row_ids=ids)


def native(problem: DenseProblem) -> AutogradProvider:
    """Our op, its mask by row number."""
    x, bias, residual = problem.leaves()

    def forward() -> Tensor:
        out: Tensor = bias_act_dropout_residual(
            x, bias, residual, act="gelu", dropout=problem.dropout, seed=problem.seed
        )
        return out

    return AutogradProvider("native", forward, (x, bias, residual), problem.dout)


def reference(problem: DenseProblem) -> AutogradProvider:
    """Our op on its reference path."""
    return replace(native(problem), name="reference", context=lambda: use_backend("reference"))


def torch_ops(problem: DenseProblem) -> AutogradProvider:
    """One torch op after the other; dropout from torch's generator."""
    x, bias, residual = problem.leaves()

    def forward() -> Tensor:
        return F.dropout(F.gelu(x + bias), problem.dropout) + residual

    return AutogradProvider("torch", forward, (x, bias, residual), problem.dout)


_MAKERS: dict[str, Callable[[DenseProblem], AutogradProvider]] = {
    "native": native,
    "torch": torch_ops,
    "reference": reference,
}


def run(options: DenseOptions) -> Report:
    """Check everybody, then time them in turn.

    Args:
        options: what to measure.

    Returns:
        A row for each provider and mode.

    Raises:
        CheckFailedError: somebody computes something else; nothing was timed.
    """
    with set_up(options):
        names = choose(options.providers, tuple(_MAKERS))
        small = DenseProblem.make(replace(options, rows=min(options.rows, 1001)))
        problem = DenseProblem.make(options)
        rng = torch.Generator().manual_seed(_SEED)
        rows = torch.randperm(options.rows, generator=rng)[: checks.SAMPLES]
        providers: list[Provider] = []
        peaks = {}
        for name in names:
            _check(small, name, torch.arange(len(small.x)))
            _check(problem, name, rows)
            provider = _MAKERS[name](problem)
            peaks[name] = peak_of(first_run(provider), "dense_ops", options, name)
            providers.append(provider)
        case = Case(KERNEL, options, None, f"{options.rows} x {options.width}", _bytes(options), peaks)
        return Report(measure(case, providers))


def peak_alone(argument: dict[str, Any]) -> int:
    """Peak of one provider, for a process of its own; see :func:`longhop.bench.timing.peak_of`."""
    options = DenseOptions(**argument["options"])
    with set_up(options):
        return extra_peak(_MAKERS[argument["provider"]](DenseProblem.make(options)).values)


def _check(problem: DenseProblem, name: str, rows: Tensor) -> None:
    """Output and gradients of some rows, and the gradient of the bias.

    Torch's masks are its own: with dropout, torch is compared without it.
    """
    if name == "torch":
        problem = replace(problem, dropout=0.0)
    out, grads = _MAKERS[name](problem).values()
    got = {"out": out[rows], "dx": grads[0][rows], "dresidual": grads[2][rows]}
    whole = _oracle(problem)
    want = _oracle(problem.at(rows)) | {"dbias": whole["dbias"]}
    checks.compare_all(name, got | {"dbias": grads[1]}, want, TOLERANCE)


def _oracle(problem: DenseProblem) -> dict[str, Tensor]:
    """The same in fp64; without dropout from torch's own ops, which share nothing with ours."""
    wide = replace(problem, **{n: getattr(problem, n).double() for n in ("x", "bias", "residual", "dout")})
    x, bias, residual = wide.leaves()
    if problem.dropout == 0:
        out = F.gelu(x + bias) + residual
    else:
        out = bias_act_dropout_residual(
            x, bias, residual, act="gelu", dropout=problem.dropout, seed=problem.seed, row_ids=problem.row_ids
        )
    grads = checks.gradients(out, (x, bias, residual), wide.dout)
    return {"out": out.detach()} | dict(zip(_NAMES, grads, strict=True))


def _bytes(options: DenseOptions) -> dict[Mode, int]:
    """What must move: x, residual and output; in backward x, the gradient that comes and that of x."""
    one = options.rows * options.width * 4
    return {"fwd": 3 * one, "bwd": 3 * one, "both": 6 * one}
