"""``longhop inspect``."""

import dataclasses
import json
from typing import Annotated, Any

import tyro

from longhop.cli.arguments import parse
from longhop.data import DataConfig, inspect_dataset, load
from longhop.train.journal import plain


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Say what was understood of a data set: counts, degrees, components, labels, splits."""

    path: Annotated[str, tyro.conf.Positional]
    """File, folder or synthetic:NAME."""
    name: str = ""
    """Which data set of a folder that holds several."""
    format: str = "auto"
    """Reader; auto looks at the files."""
    symmetrize: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Add the missing reverse of every edge."""
    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Print JSON."""


def main(words: list[str]) -> int:
    """Run the command."""
    arguments = parse(Arguments, words, prog="longhop inspect")
    config = DataConfig(
        path=arguments.path,
        name=arguments.name,
        format=arguments.format,  # type: ignore[arg-type]  # load refuses unknown ones with the known listed
        symmetrize=arguments.symmetrize,
    )
    found = inspect_dataset(load(config))
    if arguments.json:
        print(json.dumps(plain(found), indent=2))
    else:
        _print_table(found)
    return 0


def _print_table(found: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False)
    for key, value in found.items():
        for name, cell in _rows(key, value):
            table.add_row(name, cell)
    Console().print(table)


def _rows(key: str, value: Any) -> list[tuple[str, str]]:
    """A line a plain value; long lists are cut."""
    name = key.replace("_", " ")
    if isinstance(value, dict):
        return [row for part, item in value.items() for row in _rows(f"{key} {part}", item)]
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [row for i, item in enumerate(value[:10]) for row in _rows(f"{key} {i}", item)]
    if isinstance(value, list):
        shown = ", ".join(map(str, value[:20])) + (f", ... ({len(value)} in all)" if len(value) > 20 else "")
        return [(name, shown)]
    if isinstance(value, float):
        return [(name, f"{value:.4g}")]
    return [(name, f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value))]
