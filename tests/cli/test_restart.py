import platform
import subprocess
import sys

import pytest

from longhop.cli.restart import tunables

BOTH = "glibc.malloc.tcache_count=0:glibc.malloc.hugetlb=1"
CODE = """
import os, sys
from longhop.cli import restart
restart.with_tunables(sys.argv[1:])
print(os.getpid(), os.environ.get("GLIBC_TUNABLES"), sys.argv[1:], sys.flags.no_user_site)
"""


def start(*words: str) -> tuple[int, str]:
    process = subprocess.Popen([sys.executable, "-s", "-c", CODE, *words], stdout=subprocess.PIPE, text=True)
    out, _ = process.communicate()
    pid, rest = out.strip().split(" ", 1)
    assert int(pid) == process.pid
    return process.returncode, rest


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc only")
def test_the_same_process_starts_anew_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    assert start("train", "a b") == (0, f"{BOTH} ['train', 'a b'] 1")
    for words in (["--train.allocator", "False"], ["--train.allocator=false"]):
        assert start(*words)[1].startswith("None ")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, BOTH),
        ("glibc.malloc.check=1", f"glibc.malloc.check=1:{BOTH}"),
        ("glibc.malloc.tcache_count=7", "glibc.malloc.tcache_count=7:glibc.malloc.hugetlb=1"),
        (BOTH, None),
    ],
)
def test_what_the_user_chose_stays(given: str | None, expected: str | None) -> None:
    assert tunables(given) == expected
