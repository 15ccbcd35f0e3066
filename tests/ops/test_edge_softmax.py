"""edge_softmax: kernels and op against the fp64 reference, the reference against torch.softmax."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from longhop.ops.edge_softmax import edge_softmax, reference
from longhop.ops.edge_softmax import op as softmax_op
from longhop.testing.asserts import assert_close
from longhop.testing.graphs import awkward_graphs
from longhop.testing.poison import poisoned_empty
from longhop.types import InputError

OFFSETS = {name: graph.rowptr for name, graph in awkward_graphs().items()}
OFFSETS["long"] = torch.tensor([0, 3, 3, 9003, 9004, 20000])
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
RELATIVE = {torch.float32: 2e-6, torch.bfloat16: 5e-3}


def scores_for(rowptr: Tensor, heads: int, absent: float = 0.3) -> Tensor:
    """fp32 [E, H], some -inf, one row of nothing else where there is one."""
    rng = torch.Generator().manual_seed(1)
    scores = 3 * torch.randn(int(rowptr[-1]), heads, generator=rng)
    scores[torch.rand(scores.shape, generator=rng) < absent] = -torch.inf
    if absent and rowptr.numel() > 2:
        scores[rowptr[1] : rowptr[2]] = -torch.inf
    return scores


def assert_matches(rowptr: Tensor, scores: Tensor) -> None:
    probe = torch.randn(scores.shape, generator=torch.Generator().manual_seed(2)).to(scores.dtype)
    leaf = scores.detach().requires_grad_()
    with poisoned_empty():
        out = edge_softmax(rowptr, leaf)
        (dscores,) = torch.autograd.grad(out, leaf, probe)
    assert out.dtype == scores.dtype
    assert out.is_contiguous()
    want = reference.edge_softmax(rowptr, scores.double())
    relative = RELATIVE[scores.dtype]
    assert_close("out", out, want, relative=relative, cosine=1e-5)
    # Backward starts from the weights that forward returned.
    wide = reference.backward(rowptr, probe.double(), out.detach().double())
    assert_close("dscores", dscores, wide, relative=3 * relative, cosine=1e-5)
    assert not out[scores == -torch.inf].any()
    assert not dscores[scores == -torch.inf].any()


@pytest.mark.parametrize("rowptr", OFFSETS.values(), ids=OFFSETS)
@DTYPES
@pytest.mark.parametrize("heads", [1, 3, 8])
def test_values_and_gradients(isa: str, rowptr: Tensor, dtype: torch.dtype, heads: int) -> None:
    assert_matches(rowptr, scores_for(rowptr, heads).to(dtype))


@pytest.mark.parametrize("heads", [2, 4, 5, 6, 7, 12, 16, 20, 33])
@DTYPES
def test_heads(isa: str, heads: int, dtype: torch.dtype) -> None:
    assert_matches(OFFSETS["power_law"], scores_for(OFFSETS["power_law"], heads).to(dtype))


def test_strided_scores(isa: str) -> None:
    rowptr = OFFSETS["odd_100"]
    scores = scores_for(rowptr, 20, absent=0.0)
    for view in (scores[:, 3:8], scores.t().contiguous().t(), scores[:, :1].expand(-1, 5)):
        assert_matches(rowptr, view)


@pytest.mark.parametrize("heads", [1, 3, 12])
def test_same_bits_for_any_number_of_threads(isa: str, heads: int, with_threads: Callable[[int], None]) -> None:
    scores = scores_for(OFFSETS["long"], heads).requires_grad_()
    results = []
    for threads in (1, 2, 5):
        with_threads(threads)
        out = edge_softmax(OFFSETS["long"], scores)
        results.append((out.detach(), torch.autograd.grad(out.square().sum(), scores)[0]))
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_reference_against_softmax() -> None:
    rowptr, scores = OFFSETS["hub"], scores_for(OFFSETS["hub"], 3, absent=0.0).double()
    out = reference.edge_softmax(rowptr, scores)
    for begin, end in zip(rowptr[:-1].tolist(), rowptr[1:].tolist(), strict=True):
        torch.testing.assert_close(out[begin:end], scores[begin:end].softmax(0))


def test_gradcheck() -> None:
    rowptr = torch.tensor([0, 3, 3, 5, 9])
    scores = torch.randn(9, 3, generator=torch.Generator().manual_seed(4), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: edge_softmax(rowptr, s), (scores,))


def test_nan_stays_in_its_row_and_head(isa: str) -> None:
    rowptr, scores = torch.tensor([0, 4, 9, 30]), torch.zeros(30, 3)
    scores[5, 1], scores[20, 2] = torch.nan, torch.inf
    expected = torch.zeros(30, 3, dtype=torch.bool)
    expected[4:9, 1] = True
    out = edge_softmax(rowptr, scores)
    assert torch.equal(out[:9].isnan(), expected[:9])
    assert bool(out[20, 2].isnan())
    assert bool(out[9:, :2].isfinite().all())


def test_large_scores_do_not_overflow(isa: str) -> None:
    out = edge_softmax(torch.tensor([0, 3]), torch.tensor([[3e38], [3e38], [-3e38]]))
    assert out.flatten().tolist() == [0.5, 0.5, 0.0]


def test_bad_offsets_are_refused(isa: str) -> None:
    for rowptr in ([0, 3, 2, 5], [0, 2, 4], [0, 2, 6]):
        with pytest.raises(RuntimeError):
            edge_softmax(torch.tensor(rowptr), torch.zeros(5, 2))


def test_input_errors() -> None:
    with pytest.raises(InputError, match="scores must be floating with two axes"):
        edge_softmax(torch.tensor([0, 5]), torch.zeros(5))
    with pytest.raises(InputError, match="rowptr must be int64"):
        edge_softmax(torch.zeros(2), torch.zeros(5, 1))


def test_opcheck() -> None:
    rowptr = OFFSETS["odd_63"]
    scores = torch.randn(int(rowptr[-1]), 6)
    for view in (scores, scores[:, 1:4], scores.t().contiguous().t()):
        torch.library.opcheck(softmax_op._forward, (rowptr, view.detach().requires_grad_()))
        torch.library.opcheck(softmax_op._grad_scores, (rowptr, view, view.exp()))


def test_compiles_once_for_any_size(compile_counter: Any) -> None:
    compiled = torch.compile(edge_softmax, fullgraph=True, backend=compile_counter)
    for size in range(10, 20):
        rowptr = torch.arange(0, 3 * size + 1, 3)
        scores = torch.randn(3 * size, 8, requires_grad=True)
        grads = [torch.autograd.grad(f(rowptr, scores).square().sum(), scores)[0] for f in (compiled, edge_softmax)]
        assert torch.equal(*grads)
    assert compile_counter.count <= 2
