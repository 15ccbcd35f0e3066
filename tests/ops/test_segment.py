"""segment: kernels and op against the fp64 reference (which is spmm's, with pair e reading row e)."""

from typing import Any

import pytest
import torch
from torch import Tensor

from longhop.ops.segment import op as segment_op
from longhop.ops.segment import reference, segment
from longhop.testing.asserts import assert_close
from longhop.testing.graphs import awkward_graphs
from longhop.testing.poison import poisoned_empty
from longhop.types import InputError

OFFSETS = {name: graph.rowptr for name, graph in awkward_graphs().items()}
OFFSETS["long"] = torch.tensor([0, 3, 3, 9003, 9004, 20000])
RELATIVE = {torch.float32: 1e-6, torch.bfloat16: 5e-3}
REDUCE = pytest.mark.parametrize("reduce", ["sum", "mean", "max"])


def source(rowptr: Tensor, width: int) -> Tensor:
    """fp64 multiples of 1/4, half of them 0: exact in every type, and full of ties."""
    rng = torch.Generator().manual_seed(1)
    x = torch.randn(int(rowptr[-1]), width, generator=rng, dtype=torch.float64)
    return (4 * x).round().clamp(0, 16) / 4


def assert_matches(src: Tensor, rowptr: Tensor, reduce: Any) -> None:
    probe = torch.randn(rowptr.numel() - 1, src.shape[1], generator=torch.Generator().manual_seed(2)).bfloat16()
    with poisoned_empty():
        leaf = src.detach().requires_grad_()
        out = segment(leaf, rowptr, reduce)
        got = [out.detach(), *torch.autograd.grad(out, leaf, probe.to(out.dtype))]
    assert out.dtype == src.dtype
    assert out.is_contiguous()
    wide = src.detach().double().requires_grad_()
    if reduce == "max":
        want = reference.segment_max(rowptr, wide)[0]
    else:
        want = reference.segment(rowptr, wide, reduce == "mean")
    for name, a, b in zip(("out", "dsrc"), got, (want, *torch.autograd.grad(want, wide, probe.double())), strict=True):
        assert_close(name, a, b, relative=RELATIVE[src.dtype], cosine=1e-5)


@pytest.mark.parametrize("rowptr", OFFSETS.values(), ids=OFFSETS)
@REDUCE
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("width", [1, 7, 30])
def test_values_and_gradients(isa: str, rowptr: Tensor, reduce: str, dtype: torch.dtype, width: int) -> None:
    assert_matches(source(rowptr, width).to(dtype), rowptr, reduce)


@REDUCE
def test_strided_source(isa: str, reduce: str) -> None:
    rowptr = OFFSETS["odd_63"]
    wide = source(rowptr, 40).float()
    for src in (wide[:, 3:20], wide.t().contiguous().t(), wide[:1].expand_as(wide)):
        assert_matches(src, rowptr, reduce)


@REDUCE
def test_gradcheck(reduce: Any) -> None:
    rowptr = torch.tensor([0, 2, 2, 5])
    src = torch.randn(5, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: segment(s, rowptr, reduce), (src,))


def test_saves_nothing_for_sums() -> None:
    saved: list[Tensor] = []
    rowptr = OFFSETS["odd_63"]
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        segment(source(rowptr, 16).float().requires_grad_(), rowptr)
    assert [t.shape for t in saved] == [rowptr.shape]


def test_bad_offsets_are_refused(isa: str) -> None:
    for rowptr in ([0, 3, 2, 5], [0, 2, 4], [1, 2, 5], [0, 2, 6]):
        with pytest.raises(RuntimeError):
            segment(torch.zeros(5, 2), torch.tensor(rowptr))


def test_input_errors() -> None:
    rowptr = torch.tensor([0, 5])
    with pytest.raises(InputError, match="reduce must be one of"):
        segment(torch.zeros(5, 2), rowptr, "median")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="src must be floating with two axes"):
        segment(torch.zeros(5), rowptr)
    with pytest.raises(InputError, match="rowptr must be int64"):
        segment(torch.zeros(5, 2), rowptr.int())


@pytest.mark.parametrize("bits", [0, 16])
def test_opcheck(bits: int) -> None:
    rowptr = OFFSETS["odd_63"]
    src = torch.randn(int(rowptr[-1]), 20)[:, 3:12].requires_grad_()
    out, winner = segment_op._forward(src.detach(), rowptr, False, bits)
    torch.library.opcheck(segment_op._forward, (src, rowptr, bits == 0, bits))
    grad = torch.randn(out.shape[1], out.shape[0]).t()
    torch.library.opcheck(segment_op._grad_src, (rowptr, src.shape[0], grad, winner if bits else None, False))


@REDUCE
def test_compiles_once_for_any_size(reduce: Any, compile_counter: Any) -> None:
    compiled = torch.compile(segment, fullgraph=True, backend=compile_counter)
    for size in range(10, 20):
        rowptr = torch.arange(0, 3 * size + 1, 3)
        src = torch.randn(3 * size, 8, requires_grad=True)
        grads = [torch.autograd.grad(f(src, rowptr, reduce).square().sum(), src)[0] for f in (compiled, segment)]
        assert torch.equal(*grads)
    assert compile_counter.count <= 2
