"""What the README and examples/ show works."""

import re
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_python_of_the_readme_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(blocks) == 2
    scope: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), scope)
    assert float(scope["accuracy"]) > 0.8  # type: ignore[arg-type]


def test_example_learns() -> None:
    example = runpy.run_path(str(ROOT / "examples" / "own_training_loop.py"))
    assert example["main"](steps=30) > 0.8
