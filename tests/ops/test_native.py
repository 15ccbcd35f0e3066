"""The kernels are there where they can be; where they are not, the reference runs and says so once."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from longhop.ops import dispatch, native

ATTEND_TWICE = """
import torch, warnings
from longhop.graph.generate import path
from longhop.layout import AttentionLayout, graph_attention
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    q = torch.ones(5, 2, 4)
    layout = AttentionLayout.from_graph(path(5))
    out = [graph_attention(q, q, q, layout) for _ in range(2)]
assert torch.allclose(out[0], q), out
print(len(seen), seen[0].message)
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler on this machine")
def test_the_kernels_were_built_on_a_machine_with_a_compiler() -> None:
    assert isinstance(native.load(), native.NativeLibrary), native.load()


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("LONGHOP_NATIVE_LIBRARY", "/nowhere/lib.so", "no library at /nowhere/lib.so"),
        ("LONGHOP_ISA", "avx9", "choose baseline, avx2 or avx512"),
    ],
)
def test_without_kernels_the_reference_runs_and_warns_once(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, reason: str
) -> None:
    monkeypatch.setenv(name, value)
    done = subprocess.run([sys.executable, "-c", ATTEND_TWICE], capture_output=True, text=True, check=True)
    count, message = done.stdout.split(" ", 1)
    assert count == "1"
    assert "slow reference path" in message
    assert reason in message


def test_a_backend_asked_for_by_name_that_cannot_serve_says_why() -> None:
    with (
        dispatch.use_backend("native"),
        pytest.raises(RuntimeError, match=r"float32 and bfloat16, got torch\.float64"),
    ):
        dispatch.choose("some_op", torch.zeros(1, dtype=torch.float64))


def test_a_library_of_another_version_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "old.c"
    source.write_text("int longhop_abi_version() { return -1; } int longhop_best_variant() { return 0; }")
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler on this machine")
    library = tmp_path / "liblonghop_native.so"
    subprocess.run([compiler, "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    with pytest.raises(OSError, match="ABI version -1"):
        native.NativeLibrary(library)
