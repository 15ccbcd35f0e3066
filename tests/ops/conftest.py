"""What the tests of several ops share."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from longhop.ops import native


@pytest.fixture(params=["avx512", "avx2", "baseline", "reference"])
def isa(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Every call of the test is served by this build of the kernels, or by the reference."""
    choice: str = request.param
    if choice == "reference":
        monkeypatch.setenv("LONGHOP_BACKEND", "reference")
        yield choice
        return
    monkeypatch.setenv("LONGHOP_BACKEND", "native")
    monkeypatch.setenv("LONGHOP_ISA", choice)
    native.load.cache_clear()
    loaded = native.load()
    if isinstance(loaded, str):
        native.load.cache_clear()
        pytest.skip(loaded)
    yield choice
    native.load.cache_clear()


@pytest.fixture
def with_threads() -> Iterator[Callable[[int], None]]:
    """``torch.set_num_threads``, undone after the test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


class CompileCounter:
    """A backend for torch.compile, aot_eager, that counts how often it is asked to compile."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, module: torch.fx.GraphModule, example_inputs: list[Any]) -> Any:
        self.count += 1
        return torch._dynamo.lookup_backend("aot_eager")(module, example_inputs)


@pytest.fixture
def compile_counter() -> Iterator[CompileCounter]:
    """See :class:`CompileCounter`; starts and ends with nothing compiled."""
    torch._dynamo.reset()
    yield CompileCounter()
    torch._dynamo.reset()
