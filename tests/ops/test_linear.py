"""linear against torch's own in double precision; what it saves; other types."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from longhop.ops.fused_block import bias_act_dropout_residual
from longhop.ops.linear import linear
from longhop.saving import Role, installed
from longhop.types import InputError

Operands = tuple[Tensor, Tensor, Tensor | None]


def operands(rows: int, width: int, outputs: int, *, bias: bool = True) -> Operands:
    rng = torch.Generator().manual_seed(rows + width)
    return (
        torch.randn(rows, width, generator=rng),
        torch.randn(outputs, width, generator=rng),
        torch.randn(outputs, generator=rng) if bias else None,
    )


def leaves(given: Operands, dtype: torch.dtype = torch.float32) -> list[Tensor | None]:
    return [None if t is None else t.detach().to(dtype, copy=True).requires_grad_() for t in given]


def close(got: Tensor, want: Tensor) -> None:
    """fp32 sums of many terms: against the size of the result, not of an element."""
    torch.testing.assert_close(got.double(), want, rtol=0, atol=2e-6 * float(want.abs().max()) + 1e-30)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [0, 1, 7, 48, 4099])
@pytest.mark.parametrize(("width", "outputs"), [(64, 192), (1, 40), (33, 7), (16, 1), (300, 20), (0, 3), (3, 0)])
@pytest.mark.usefixtures("isa")
def test_values_and_every_gradient(rows: int, width: int, outputs: int, bias: bool) -> None:
    given = operands(rows, width, outputs, bias=bias)
    ours, theirs = leaves(given), leaves(given, torch.float64)
    got, want = linear(*ours), F.linear(*theirs)  # type: ignore[arg-type]
    weights = torch.randn(want.shape, generator=torch.Generator().manual_seed(1))
    got.backward(weights)
    want.backward(weights.double())
    if want.numel():
        close(got.detach(), want.detach())
    for mine, other in zip(ours, theirs, strict=True):
        if mine is not None and other is not None and other.numel():
            assert mine.grad is not None
            assert other.grad is not None
            close(mine.grad, other.grad)


@pytest.mark.usefixtures("isa")
def test_written_past_the_cache() -> None:
    """Outputs of 16 MiB and more are streamed; the last block is not full, nor are the tiles of its last rows."""
    x, weight, bias = operands((1 << 18) + 5, 16, 16)
    x.requires_grad_()
    out = linear(x, weight, bias)
    close(out.detach(), F.linear(x.double(), weight.double(), bias.double()).detach())  # type: ignore[union-attr]
    grad = torch.randn(out.shape, generator=torch.Generator().manual_seed(2))
    close(torch.autograd.grad(out, x, grad)[0], grad.double() @ weight.double())


@pytest.mark.usefixtures("isa")
def test_strided_operands_and_gradients() -> None:
    x, weight, bias = operands(5000, 2 * 24, 16)
    x, weight = x[:, ::2].requires_grad_(), weight[:, ::2].requires_grad_()
    out = linear(x, weight, bias)
    grad = torch.ones(16, 5000).t()
    got = torch.autograd.grad(out, (x, weight), grad)
    want = torch.autograd.grad(F.linear(x.double(), weight.double()), (x, weight), grad.double())
    for mine, other in zip(got, want, strict=True):
        close(mine, other.double())


@pytest.mark.usefixtures("isa")
def test_a_row_does_not_depend_on_its_place() -> None:
    x, weight, bias = operands(101, 24, 40)
    torch.testing.assert_close(linear(x, weight, bias)[37:], linear(x[37:], weight, bias), rtol=0, atol=0)


def test_sum_of_weight_gradient_does_not_depend_on_threads() -> None:
    x, weight, _ = operands(12293, 32, 32, bias=False)
    weight.requires_grad_()
    grads, before = [], torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            grads.append(torch.autograd.grad(linear(x, weight).square().sum(), weight)[0])
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(grads[0], grads[1], rtol=0, atol=0)


class Recorder:
    """Keeps what is saved, by name and role."""

    def __init__(self) -> None:
        self.names: dict[str, Role] = {}

    def pack(self, tensor: Tensor, role: Role, name: str) -> Tensor:
        self.names[name] = role
        return tensor

    def unpack(self, packed: Tensor) -> Tensor:
        return packed


@pytest.mark.parametrize(("wants", "kept"), [("x", {"weight"}), ("weight", {"x"}), ("bias", set())])
def test_saves_what_gradients_need(wants: str, kept: set[str]) -> None:
    given = dict(zip(("x", "weight", "bias"), operands(64, 8, 4), strict=True))
    tensor = given[wants]
    assert tensor is not None
    tensor.requires_grad_()
    with installed(Recorder()) as recorder:
        linear(**given).sum().backward()  # type: ignore[arg-type]
    assert {name.rpartition(".")[2] for name in recorder.names} == kept


# What stands around the product: (norm, act, residual, dropout).
AROUND = [
    (True, "none", False, 0.0), (False, "gelu", False, 0.0), (False, "relu", True, 0.0), (False, "none", False, 0.25),
    (True, "none", True, 0.25), (False, "gelu", True, 0.4),
]  # fmt: skip
SEED = torch.tensor([-3])


def around(x: Tensor, outputs: int, norm: bool, residual: bool) -> list[Tensor]:
    """Weight and bias of a norm, and a residual; the last rows of x have no spread, and a large mean."""
    rng = torch.Generator().manual_seed(9)
    x[-2:] = 100.0
    vectors = [torch.randn(x.shape[1], generator=rng) for _ in range(2)] if norm else []
    return vectors + ([torch.randn(len(x), outputs, generator=rng)] if residual else [])


def composed(leaf: list[Tensor], norm: bool, act: str, residual: bool, dropout: float, ids: Tensor) -> Tensor:
    """The same of torch's own ops in double precision; the mask alone is ours."""
    x, weight, bias, *others = leaf
    x = F.layer_norm(x, x.shape[1:], *others[:2]) if norm else x
    x = F.gelu(x) if act == "gelu" else F.relu(x) if act == "relu" else x
    out = F.linear(x, weight, bias)
    if dropout:
        ones = torch.ones_like(out, dtype=torch.float32)
        out = out * bias_act_dropout_residual(ones, dropout=dropout, seed=SEED, site=5, row_ids=ids).double()
    return out + others[-1] if residual else out


@pytest.mark.parametrize(("norm", "act", "residual", "dropout"), AROUND)
@pytest.mark.parametrize(("rows", "width", "outputs"), [(1500, 64, 64), (77, 20, 33), (49, 7, 300), (3, 5, 1)])
@pytest.mark.usefixtures("isa")
def test_what_stands_around_the_product(
    rows: int, width: int, outputs: int, norm: bool, act: Any, residual: bool, dropout: float
) -> None:
    given = [t for t in operands(rows, width, outputs) if t is not None]
    given += around(given[0], outputs, norm, residual)
    ids = torch.arange(rows).flip(0) * 7 + (1 << 33)
    mine = [t.clone().requires_grad_() for t in given]
    theirs = [t.double().requires_grad_() for t in given]
    got = linear(
        *mine[:3], mine[-1] if residual else None, norm=(mine[3], mine[4], 1e-5) if norm else None, act=act,
        dropout=dropout, seed=SEED if dropout else None, site=5, row_ids=ids if dropout else None,
    )  # fmt: skip
    want = composed(theirs, norm, act, residual, dropout, ids)
    close(got.detach(), want.detach())
    weights = torch.randn(want.shape, generator=torch.Generator().manual_seed(1))
    got.backward(weights)
    want.backward(weights.double())
    for number, (ours, other) in enumerate(zip(mine, theirs, strict=True)):
        assert ours.grad is not None
        assert other.grad is not None
        # A norm divides by the spread: rows without any amplify rounding by 1 / sqrt(eps).
        last = -2 if norm and number == 0 else None
        close(ours.grad[:last], other.grad[:last])


@pytest.mark.usefixtures("isa")
def test_prologue_and_mask_written_past_the_cache() -> None:
    """Outputs and gradients of 16 MiB and more are streamed after a norm, too."""
    x, weight, bias = operands((1 << 17) + 3, 32, 32)
    norm = (torch.rand(32), torch.rand(32), 1e-5)
    x.requires_grad_()
    out = linear(x, weight, bias, x.detach(), norm=norm, dropout=0.5, seed=SEED)
    mask = bias_act_dropout_residual(torch.ones_like(out), dropout=0.5, seed=SEED).double()
    wide = x.detach().double().requires_grad_()
    hat = F.layer_norm(wide, (32,), norm[0].double(), norm[1].double())
    want = F.linear(hat, weight.double(), bias.double()) * mask + x.detach()  # type: ignore[union-attr]
    close(out.detach(), want.detach())
    grad = torch.randn(out.shape, generator=torch.Generator().manual_seed(2))
    want.backward(grad.double())
    assert wide.grad is not None
    close(torch.autograd.grad(out, x, grad)[0], wide.grad)


@pytest.mark.parametrize("act", ["relu", "none"])
@pytest.mark.usefixtures("isa")
def test_a_nan_is_not_lost(act: Any) -> None:
    x, weight, bias = operands(60, 8, 8)
    x[13, 2] = float("nan")
    out = linear(x, weight, bias, norm=(torch.ones(8), torch.ones(8), 1e-5) if act == "none" else None, act=act)
    assert out.isnan().any(1).nonzero().flatten().tolist() == [13]


@pytest.mark.usefixtures("isa")
def test_a_row_does_not_depend_on_its_place_after_a_norm() -> None:
    x, weight, bias = operands(101, 24, 40)
    norm = (torch.rand(24), torch.rand(24), 1e-5)
    torch.testing.assert_close(
        linear(x, weight, bias, norm=norm)[37:], linear(x[37:], weight, bias, norm=norm), rtol=0, atol=0
    )


def test_all_sums_are_independent_of_threads(with_threads: Callable[[int], None]) -> None:
    given = [t.requires_grad_() for t in operands(12293, 24, 40) if t is not None]
    norm = [torch.rand(24).requires_grad_(), torch.rand(24).requires_grad_()]
    found = []
    for threads in (1, 2, 3):
        with_threads(threads)
        out = linear(*given, norm=(norm[0], norm[1], 1e-5), dropout=0.3, seed=SEED)
        found.append([out.detach(), *torch.autograd.grad(out.square().sum(), [*given, *norm])])
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            assert torch.equal(one, two)


def test_saves_the_input_once_and_nothing_of_the_mask() -> None:
    x, weight, bias = (t.requires_grad_() for t in operands(64, 8, 4) if t is not None)
    norm = (torch.ones(8), torch.ones(8), 1e-5)
    with installed(Recorder()) as recorder:
        out = linear(x, weight, bias, norm=norm, dropout=0.5, seed=SEED)
        linear(out, torch.ones(3, 4).requires_grad_(), act="gelu").sum().backward()
    assert recorder.names == {
        "linear.x": Role.BOUNDED, "linear.weight": Role.EXACT, "linear.gamma": Role.EXACT, "linear.beta": Role.EXACT,
        "linear.seed": Role.EXACT,
    }  # fmt: skip


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.usefixtures("isa")
def test_one_vector_of_a_norm_alone(number: int) -> None:
    x, weight, bias = operands(64, 8, 4)
    norm = [torch.rand(8), torch.rand(8)]
    norm[number].requires_grad_()
    got = torch.autograd.grad(linear(x, weight, bias, norm=(norm[0], norm[1], 1e-5)).square().sum(), norm[number])[0]
    wide = [v.detach().double().requires_grad_(v.requires_grad) for v in norm]
    out = F.linear(F.layer_norm(x.double(), (8,), *wide), weight.double(), bias.double())  # type: ignore[union-attr]
    close(got, torch.autograd.grad(out.square().sum(), wide[number])[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"act": "tanh"}, "act must be one of"),
        ({"act": "relu", "norm": (torch.ones(12), torch.ones(12), 1e-5)}, "cannot be combined"),
        ({"norm": (torch.ones(11), torch.ones(12), 1e-5)}, "the norm's weight must be"),
        ({"residual": torch.ones(10, 7)}, "residual must be as the result"),
        ({"dropout": 0.5}, "dropout needs a seed"),
        ({"dropout": 0.5, "seed": SEED, "row_ids": torch.arange(9)}, "row_ids must be"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        linear(*operands(10, 12, 8), **options)


@pytest.mark.parametrize("rows", [5, 4099])
def test_opcheck(rows: int) -> None:
    x, weight, bias = leaves(operands(rows, 12, 8))
    vectors = [torch.rand(12).requires_grad_() for _ in range(2)]
    ids = torch.arange(rows)
    check = torch.library.opcheck
    check(torch.ops.longhop.linear, (x, weight, bias, None, None, None, 0.0, "none", 0, None, 0, None))
    residual = torch.rand(rows, 8).requires_grad_()
    check(torch.ops.longhop.linear, (x, weight, bias, residual, *vectors, 1e-5, "none", 99, SEED, 1, ids))


def test_compiles_without_a_break() -> None:
    compiled = torch.compile(linear, fullgraph=True, backend="aot_eager", dynamic=True)
    for rows in (10, 300, 4097):
        x, weight, bias = operands(rows, 12, 8)
        torch.testing.assert_close(compiled(x, weight, bias), F.linear(x, weight, bias), rtol=1e-4, atol=1e-4)


def test_others_take_torchs_own_path() -> None:
    x, weight, bias = operands(10, 12, 8)
    assert bias is not None
    assert torch.equal(linear(x.double(), weight.double()), F.linear(x.double(), weight.double()))
    batched = x.view(2, 5, 12)
    assert torch.equal(linear(batched, weight, bias), F.linear(batched, weight, bias))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert linear(x, weight, bias).dtype == torch.bfloat16


@pytest.mark.parametrize(("weight", "bias"), [((2, 4), None), ((2, 3), 3)])
def test_wrong_shapes_are_refused(weight: tuple[int, ...], bias: int | None) -> None:
    with pytest.raises(RuntimeError):
        linear(torch.ones(5, 3), torch.ones(weight), None if bias is None else torch.ones(bias))
