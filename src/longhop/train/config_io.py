"""Run settings to and from dictionaries and YAML, strictly: an unknown key is an error with a suggestion."""

import dataclasses
import difflib
import functools
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import cattrs
import yaml

from longhop import env
from longhop.models.registry import ModelConfig
from longhop.train.config import RunConfig
from longhop.types import InputError

_DATA_ROOT = "$LONGHOP_DATA/"


def model_kinds() -> dict[str, type]:
    """The model config classes by their ``name``."""
    return {typing.get_args(_hints(kind)["name"])[0]: kind for kind in typing.get_args(ModelConfig)}


def from_dict(values: dict[str, Any]) -> RunConfig:
    """Build the settings from nested dictionaries.

    Args:
        values: sections and keys as in YAML.

    Returns:
        The checked settings.

    Raises:
        InputError: an unknown key (with the nearest known one), a missing or a wrong value.
    """
    _check_keys(values, RunConfig, "")
    try:
        return _converter().structure(values, RunConfig)
    except (cattrs.BaseValidationError, ValueError, KeyError) as error:
        message, _, where = cattrs.transform_error(error, format_exception=_format)[0].rpartition(" @ $")
        # Messages of __post_init__ name their field themselves.
        named = message.startswith("=")
        raise InputError(f"{where.removeprefix('.')} {message[1:]}" if named else message) from None


def to_dict(config: RunConfig) -> dict[str, Any]:
    """The settings as nested dictionaries and lists of plain values."""
    values: dict[str, Any] = _converter().unstructure(config)
    values["seeds"] = list(config.seeds)
    return values


def load_yaml(path: Path) -> RunConfig:
    """Read settings from a YAML file.

    Raises:
        InputError: the file is missing, is not YAML, or holds wrong settings; the message names the file.
    """
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; give a YAML file or the name of a recipe") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"{path}: cannot be read as YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise InputError(f"{path}: must hold sections (data, model, ...), got {type(values).__name__}")
    try:
        return from_dict(values)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def dump_yaml(config: RunConfig) -> str:
    """The settings as YAML, every key written out."""
    return yaml.safe_dump(to_dict(config), sort_keys=False, allow_unicode=True)


def resolved(config: RunConfig) -> RunConfig:
    """``config`` with a data path that holds from any working directory."""
    path = config.data.path
    if path.startswith("synthetic:"):
        return config
    root = env.data_root()
    if path.startswith(_DATA_ROOT) and root is not None:
        path = str(root / path.removeprefix(_DATA_ROOT))
    elif not path.startswith("$"):
        path = str(Path(path).absolute())
    return dataclasses.replace(config, data=dataclasses.replace(config.data, path=path))


def known_keys(kind: type, prefix: str = "") -> Iterator[str]:
    """Every section and dotted key below a config class; those of all models for the model section."""
    for name, hint in _hints(kind).items():
        yield prefix + name
        for section in _sections(hint):
            yield from known_keys(section, f"{prefix}{name}.")


def nearest(key: str, known: list[str]) -> str:
    """The known dotted key that ``key`` most likely stands for: its own section first, then its last word."""
    section, _, word = key.rpartition(".")
    same = [k for k in known if k.rpartition(".")[0] == section]
    words = {k.rpartition(".")[2]: k for k in reversed(known)}
    for candidates, given in ((same, key), (known, key)):
        found = difflib.get_close_matches(given, candidates, n=1, cutoff=0.8)
        if found:
            return found[0]
    found = difflib.get_close_matches(word, list(words), n=1, cutoff=0.75)
    if found:
        return words[found[0]]
    return difflib.get_close_matches(key, same or known, n=1, cutoff=0.0)[0]


def unknown_key(key: str, known: list[str]) -> InputError:
    """The error for a key that no config class has."""
    return InputError(f"unknown key {key}; the nearest known one is {nearest(key, known)}")


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _sections(hint: Any) -> list[type]:
    """The dataclasses that a field may hold; empty for a plain value."""
    kinds = typing.get_args(hint) or (hint,)
    return [kind for kind in kinds if dataclasses.is_dataclass(kind) and isinstance(kind, type)]


def _check_keys(values: Any, kind: type, prefix: str) -> None:
    if not isinstance(values, dict):
        raise InputError(f"{prefix.rstrip('.')} must be a section of keys, got {values!r}")
    hints = _hints(kind)
    for key, value in values.items():
        if key not in hints:
            # A section's own keys come first; another section may hold the word that was meant.
            known = list(dict.fromkeys([*known_keys(kind, prefix), *known_keys(RunConfig)]))
            raise unknown_key(f"{prefix}{key}", known)
        sections = _sections(hints[key])
        if len(sections) > 1:
            sections = [_model_kind(value)]
        if sections:
            _check_keys(value, sections[0], f"{prefix}{key}.")


def _model_kind(values: Any) -> type:
    kinds = model_kinds()
    name = values.get("name") if isinstance(values, dict) else None
    if name not in kinds:
        problem = "has no name" if name is None else f"has the unknown name {name!r}"
        raise InputError(f"model {problem}; choose model.name from {', '.join(kinds)}")
    return kinds[name]


@functools.cache
def _converter() -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True)
    for kind in (int, float, bool, str):
        converter.register_structure_hook(kind, _structure_plain)
    converter.register_structure_hook_func(_is_literal, _structure_choice)
    converter.register_structure_hook_func(
        lambda t: t == ModelConfig, lambda values, _: converter.structure(values, _model_kind(values))
    )
    converter.register_unstructure_hook_func(lambda t: t == ModelConfig, converter.unstructure)
    return converter


def _is_literal(kind: Any) -> bool:
    origin: Any = typing.get_origin(kind)
    return origin is Literal


class _WrongValueError(ValueError):
    """A value of the wrong kind; the message goes behind the name of the field."""


def _structure_plain(value: Any, kind: type) -> Any:
    """Only what means the same in YAML: no truth of strings, no cut-off fractions."""
    if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    if kind is float and isinstance(value, int | str) and not isinstance(value, bool):
        try:
            return float(value)  # YAML 1.1 reads 5e-4, without a dot, as a string
        except ValueError:
            pass
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    raise _WrongValueError(f"must be {names[kind]}, got {value!r}")


def _structure_choice(value: Any, kind: Any) -> Any:
    choices = typing.get_args(kind)
    if value not in choices:
        raise _WrongValueError(f"must be one of {', '.join(map(str, choices))}, got {value!r}")
    return value


def _format(error: BaseException, _kind: Any) -> str:
    if isinstance(error, InputError):
        return str(error)
    if isinstance(error, KeyError):
        return "=is missing; give it"
    return f"={error}"
