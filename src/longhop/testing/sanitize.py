"""Build the kernels with AddressSanitizer and UBSan and run the op tests on them: ``make sanitize``.

Python itself is not instrumented, so the runtimes are preloaded; leaks are not looked for (CPython keeps
memory on purpose).
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = ("tests/ops", "tests/layout")
SKIPPED = ("opcheck", "compile", "poison")  # torch only, slow under the sanitizers


def _runtime(name: str) -> str:
    found = subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


def main(arguments: list[str]) -> int:
    """Build in a temporary folder, run pytest, return its exit code.

    Args:
        arguments: passed on to pytest in place of the default folders.
    """
    root = Path(__file__).parents[3]
    with tempfile.TemporaryDirectory() as build:
        configure = ["cmake", "-S", str(root), "-B", build, "-DCMAKE_BUILD_TYPE=Debug"]
        configure += ["-DLONGHOP_SANITIZE=address,undefined", f"-DLONGHOP_OUTPUT_DIR={build}"]
        environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        subprocess.run(configure, check=True, env=environment)
        subprocess.run(["cmake", "--build", build, "--parallel", "2"], check=True, env=environment)
        environment |= {
            "LONGHOP_NATIVE_LIBRARY": str(Path(build) / "liblonghop_native.so"),
            "LD_PRELOAD": f"{_runtime('libasan.so')}:{_runtime('libubsan.so')}",
            "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1",
            "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        }
        skipped = " and ".join(f"not {name}" for name in SKIPPED)
        pytest = [sys.executable, "-m", "pytest", "-q", "-k", skipped, "-p", "no:cacheprovider"]
        return subprocess.run([*pytest, *(arguments or TESTS)], env=environment, cwd=root).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
