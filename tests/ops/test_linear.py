"""linear against torch's own in double precision; what it saves; other types."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from longhop.ops.linear import linear
from longhop.saving import Role, installed

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


@pytest.mark.parametrize("rows", [5, 4099])
def test_opcheck(rows: int) -> None:
    given = leaves(operands(rows, 12, 8))
    torch.library.opcheck(torch.ops.longhop.linear, given)


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
