"""The fused block: kernels and op against the fp64 reference, the reference against torch, and the op's contract."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from longhop.ops.fused_block import bias_act_dropout_residual as fused
from longhop.ops.fused_block import op as block_op
from longhop.ops.fused_block import reference
from longhop.ops.fused_block.reference import Dropout, keep_mask
from longhop.saving import installed
from longhop.testing.asserts import assert_close
from longhop.testing.poison import poisoned_empty
from longhop.types import InputError

SEED = torch.tensor([-81985529216486896])
RELATIVE = {torch.float32: 1e-6, torch.bfloat16: 5e-3}
ACT = pytest.mark.parametrize("act", ["none", "relu", "gelu"])
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
WIDTHS = pytest.mark.parametrize("width", [1, 3, 7, 8, 64, 100, 257])


def random(*shape: int, seed: int = 1) -> Tensor:
    """fp32 numbers that bf16 holds too."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).bfloat16().float()


def ids_for(num_rows: int) -> Tensor:
    """Identities that use both words, negative ones included."""
    return torch.randint(-(2**62), 2**62, (num_rows,), generator=torch.Generator().manual_seed(9))


def assert_matches(
    x: Tensor, bias: Tensor | None, residual: Tensor | None, act: Any, p: float, row_ids: Tensor | None = None
) -> None:
    leaves = [None if t is None else t.detach().requires_grad_() for t in (x, bias, residual)]
    probe = random(*x.shape, seed=5)
    present = [t for t in leaves if t is not None]
    with poisoned_empty():
        out = fused(*leaves, act=act, dropout=p, seed=SEED, site=3, row_ids=row_ids)
        got = torch.autograd.grad(out, present, probe.to(x.dtype))
    assert out.dtype == x.dtype
    assert out.is_contiguous() or p == 0.0
    wide = [None if t is None else t.detach().double().requires_grad_() for t in leaves]
    flat = [None if t is None else t.reshape(-1, x.shape[-1]) for t in (wide[0], wide[2])]
    dropout = Dropout(round(65536 * p), SEED, 3, row_ids)
    want = reference.forward(flat[0], wide[1], flat[1], act, dropout).view(x.shape)
    expected = torch.autograd.grad(want, [t for t in wide if t is not None], probe.double())
    for name, a, b in zip(("out", "d0", "d1", "d2"), (out, *got), (want, *expected), strict=False):
        assert_close(name, a, b, relative=RELATIVE[x.dtype], cosine=1e-5)


@ACT
@DTYPES
@WIDTHS
@pytest.mark.parametrize("p", [0.0, 0.3])
def test_values_and_gradients(isa: str, act: str, dtype: torch.dtype, width: int, p: float) -> None:
    x, residual = random(83, width).to(dtype), random(83, width, seed=2).to(dtype)
    assert_matches(x, random(width, seed=3), residual, act, p)
    assert_matches(x, None, None, act, p, ids_for(83))


@ACT
def test_many_rows(isa: str, act: str) -> None:
    """Several chunks of rows, the last one short; more columns than one tile holds."""
    assert_matches(random(301, 400), random(400, seed=3), random(301, 400, seed=2), act, 0.5)


@ACT
@pytest.mark.parametrize("view", ["columns", "rows", "transposed", "one_row", "leading_axes"])
def test_strided_inputs(isa: str, act: str, view: str) -> None:
    base, other = random(60, 60), random(60, 60, seed=2)
    views: dict[str, Callable[[Tensor], Tensor]] = {
        "columns": lambda t: t[:30, 3:20],
        "rows": lambda t: t[::2, :17],
        "transposed": lambda t: t.t()[:30, :17],
        "one_row": lambda t: t[:1, :17].expand(30, 17),
        "leading_axes": lambda t: t.view(5, 12, 60)[:, 2:8, :17],
    }
    assert_matches(views[view](base), random(34, seed=3)[::2], views[view](other), act, 0.4)


@pytest.mark.parametrize("rows", [0, 1])
def test_few_rows(isa: str, rows: int) -> None:
    assert_matches(random(rows, 20), random(20, seed=3), None, "gelu", 0.5)


@WIDTHS
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_mask_is_the_references(isa: str, width: int, p: float) -> None:
    ids = ids_for(50)
    for site in (0, 7, 2**32 - 1):
        out = fused(torch.ones(50, width), dropout=p, seed=SEED, site=site, row_ids=ids)
        mask = keep_mask(50, width, Dropout(round(65536 * p), SEED, site, ids))
        assert torch.equal(out != 0, mask)
        assert bool((out[mask] == torch.tensor(65536 / (65536 - round(65536 * p)))).all())


def test_mask_follows_identity_not_position(isa: str) -> None:
    x, ids = random(40, 24), ids_for(40)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(2))
    out = fused(x, act="gelu", dropout=0.5, seed=SEED, row_ids=ids)
    assert torch.equal(fused(x[order], act="gelu", dropout=0.5, seed=SEED, row_ids=ids[order]), out[order])
    numbered = fused(x, act="gelu", dropout=0.5, seed=SEED)
    assert torch.equal(numbered, fused(x, act="gelu", dropout=0.5, seed=SEED, row_ids=torch.arange(40)))
    for other in (fused(x, dropout=0.5, seed=SEED + 1), fused(x, dropout=0.5, seed=SEED, site=1)):
        assert not torch.equal(other != 0, numbered != 0)


def test_gelu_error(isa: str) -> None:
    x = torch.cat([torch.linspace(-12, 12, 400_001), torch.tensor([-1e30, -300.0, 300.0, 1e30])])
    leaf = x[None].clone().requires_grad_()
    out = fused(leaf, act="gelu")
    (slope,) = torch.autograd.grad(out.sum(), leaf)
    wide = x.double().requires_grad_()
    want = functional.gelu(wide)
    (want_slope,) = torch.autograd.grad(want.sum(), wide)
    assert float(((out[0] - want).abs() / want.abs().clamp(min=1)).detach().max()) <= 2e-6
    assert float((slope[0] - want_slope).abs().max()) <= 2e-6


@ACT
def test_nan_and_infinity_survive(isa: str, act: Any) -> None:
    x = torch.tensor([[torch.nan, torch.inf, 1.0, -1.0]]).requires_grad_()
    out = fused(x, torch.zeros(4), act=act)[0]
    assert out[0].isnan()
    assert not out[2:].isnan().any()
    if (isa, act) != ("reference", "gelu"):  # torch's own GELU makes NaN of infinity where it runs on AVX-512
        assert out[1] == torch.inf


@ACT
def test_same_bits_for_any_number_of_threads(isa: str, act: Any, with_threads: Callable[[int], None]) -> None:
    x, bias = random(1000, 36).requires_grad_(), random(36, seed=3).requires_grad_()
    results = []
    for threads in (1, 2, 5):
        with_threads(threads)
        out = fused(x, bias, act=act, dropout=0.3, seed=SEED)
        results.append((out.detach(), *torch.autograd.grad(out.square().sum(), (x, bias))))
    if isa != "reference":  # whose sum over rows is torch's
        for other in results[1:]:
            assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


@ACT
def test_gradcheck(act: Any) -> None:
    rng = torch.Generator().manual_seed(4)
    x, residual = (torch.randn(6, 11, generator=rng, dtype=torch.float64, requires_grad=True) for _ in range(2))
    bias = torch.randn(11, generator=rng, dtype=torch.float64, requires_grad=True)
    for p in (0.0, 0.4):
        block = lambda *t: fused(*t, act=act, dropout=p, seed=SEED)  # noqa: B023, E731
        assert torch.autograd.gradcheck(block, (x, bias, residual))


@ACT
@pytest.mark.parametrize("p", [0.0, 0.5])
def test_what_is_saved(act: Any, p: float) -> None:
    seen: dict[str, tuple[str, torch.Size, torch.dtype]] = {}

    class Spy:
        def pack(self, tensor: Tensor, role: Any, name: str) -> Tensor:
            seen[name.split(".")[1]] = (role.value, tensor.shape, tensor.dtype)
            return tensor

        def unpack(self, packed: Tensor) -> Tensor:
            return packed

    x, residual = random(20, 30).requires_grad_(), random(20, 30)
    with installed(Spy()):
        fused(x, random(30), residual, act=act, dropout=p, seed=SEED)
    large = {name: entry for name, entry in seen.items() if name not in ("seed", "bias")}
    expected = {
        "none": {},
        "relu": {"bits": ("exact", torch.Size([20, 4]), torch.uint8)},
        "gelu": {"x": ("bounded", torch.Size([20, 30]), torch.float32)},
    }
    assert large == expected[act]


@ACT
def test_without_gradients(isa: str, act: Any) -> None:
    x, bias = random(20, 30), random(30, seed=3)
    with torch.no_grad():
        out = fused(x.requires_grad_(), bias, act=act, dropout=0.3, seed=SEED)
    assert torch.equal(out, fused(x, bias, act=act, dropout=0.3, seed=SEED))
    assert not out.requires_grad


def test_nothing_to_do_returns_the_input() -> None:
    x = random(4, 5)
    assert fused(x) is x
    assert torch.equal(fused(x, residual=x), 2 * x)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": torch.zeros(3, 4, dtype=torch.int64)}, "x must be floating"),
        ({"x": torch.zeros(3, 0)}, "F > 0"),
        ({"act": "tanh"}, "act must be one of none, relu, gelu"),
        ({"bias": torch.zeros(5)}, r"bias must be .*\[4\]"),
        ({"residual": torch.zeros(4)}, "residual must be as x"),
        ({"residual": torch.zeros(3, 4).bfloat16()}, "residual must be as x"),
        ({"seed": None}, "needs a seed"),
        ({"seed": torch.tensor([1, 2])}, "seed must be an int64 tensor of one element"),
        ({"seed": torch.tensor([1.0])}, "seed must be an int64 tensor of one element"),
        ({"site": 2**32}, "site must lie in"),
        ({"row_ids": torch.zeros(2, dtype=torch.int64)}, r"row_ids must be int64 \[3\]"),
        ({"dropout": 1.0}, r"dropout must lie in \[0, 1\)"),
    ],
)
def test_input_errors(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"x": torch.zeros(3, 4), "dropout": 0.5, "seed": SEED}
    with pytest.raises(InputError, match=message):
        fused(**(arguments | change))


@ACT
@pytest.mark.parametrize("view", ["plain", "strided"])
def test_opcheck(act: str, view: str) -> None:
    base = random(60, 60)
    x = (base[:20, 3:15] if view == "strided" else base[:20, :16].contiguous()).requires_grad_()
    grad = random(x.shape[1], 20).t() if view == "strided" else random(*x.shape)
    bias = random(x.shape[1]).requires_grad_()
    residual, ids = random(*x.shape, seed=2).requires_grad_(), ids_for(20)
    torch.library.opcheck(block_op._forward, (x, bias, residual, act, 20000, SEED, 1, ids, act == "relu"))
    torch.library.opcheck(block_op._forward, (x, bias, None, act, 0, None, 0, None, act == "relu"))
    bits = reference.relu_bits(x.detach(), None, Dropout(0, None, 0, None)) if act == "relu" else None
    saved = (x.detach() if act == "gelu" else None, None, bits)
    for want in ((True, True), (True, False), (False, True)):
        torch.library.opcheck(block_op._grads, (grad, *saved, act, 20000, SEED, 1, ids, *want))


@ACT
def test_compiles_once_for_any_size(act: Any, compile_counter: Any) -> None:
    compiled = torch.compile(fused, fullgraph=True, backend=compile_counter)
    bias = random(16).requires_grad_()
    for size in range(10, 20):
        x = random(size, 16).requires_grad_()
        options = {"act": act, "dropout": 0.3, "seed": torch.tensor([size]), "row_ids": torch.arange(size)}
        grads = [torch.autograd.grad(f(x, bias, x, **options).square().sum(), (x, bias)) for f in (compiled, fused)]
        assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))
    assert compile_counter.count <= 2
