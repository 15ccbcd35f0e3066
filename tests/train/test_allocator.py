"""The allocator is set for a whole process, so each test has one of its own."""

import platform
import subprocess
import sys

import pytest

glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc only")

CODE = """
import torch
from longhop.train import allocator, trainer

def faults():
    import resource
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.ones(10_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

before = faults()
assert allocator.set_up()
allocator.release()
faults()
print(before, faults())
"""


@glibc
def test_freed_memory_is_reused_after_set_up_and_not_before() -> None:
    found = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True).stdout
    before, after = map(int, found.split())
    assert after < before / 20  # importing alone has changed nothing, or there would be no difference


@glibc
def test_the_allocator_is_named() -> None:
    from longhop.train.allocator import description

    assert description().startswith("glibc 2.")
