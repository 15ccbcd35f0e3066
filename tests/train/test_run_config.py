import dataclasses
from pathlib import Path
from typing import Any

import pytest

from longhop.data import DataConfig
from longhop.models import GCNConfig, GraphormerConfig
from longhop.recipes import RECIPES
from longhop.train import OptimConfig, OrderConfig, RunConfig, TrainConfig, from_dict, load_yaml, to_dict
from longhop.train.config_io import dump_yaml, resolved
from longhop.types import InputError

SMALL: dict[str, Any] = {"data": {"path": "synthetic:sbm"}, "model": {"name": "gcn"}}


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_survives_yaml(name: str, tmp_path: Path) -> None:
    config = RECIPES[name]()
    file = tmp_path / "run.yaml"
    file.write_text(dump_yaml(config))
    assert load_yaml(file) == config
    assert RECIPES[name].__doc__ is not None
    assert "Source:" in RECIPES[name].__doc__
    assert "Expected:" in RECIPES[name].__doc__


def test_the_name_chooses_the_model_and_the_rest_has_defaults() -> None:
    config = from_dict({**SMALL, "model": {"name": "graphormer", "heads": 4}})
    assert config.model == GraphormerConfig(heads=4)
    assert config.train == TrainConfig()
    assert from_dict(SMALL).model == GCNConfig()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"optim": {"lrr": 1}}, "unknown key optim.lrr; the nearest known one is optim.lr"),
        ({"optim": {"hidden": 1}}, "unknown key optim.hidden; the nearest known one is model.hidden"),
        ({"modle": {}}, "unknown key modle; the nearest known one is model"),
        ({"model": {"name": "gcn", "heads": 1}}, "unknown key model.heads"),
        ({"model": {"name": "gcm"}}, "model has the unknown name 'gcm'; choose model.name from gcn, sage"),
        ({"model": {"hidden": 3}}, "model has no name"),
        ({"optim": {"lr": "fast"}}, "optim.lr must be a number, got 'fast'"),
        ({"train": {"epochs": 2.5}}, "train.epochs must be a whole number, got 2.5"),
        ({"train": {"epochs": True}}, "train.epochs must be a whole number, got True"),
        ({"train": {"allocator": "no way"}}, "train.allocator must be true or false, got 'no way'"),
        ({"optim": {"schedule": "step"}}, "optim.schedule must be one of constant, polynomial, cosine"),
        ({"data": {}}, "data.path is missing"),
        ({"train": 3}, "train must be a section of keys, got 3"),
        ({"seeds": "0-4"}, "seeds"),
    ],
)
def test_a_wrong_key_or_value_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        from_dict({**SMALL, **changes})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_yaml_reads_exponents_without_a_dot(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("data: {path: 'synthetic:sbm'}\nmodel: {name: gcn}\noptim: {lr: 5e-4}\nseeds: [0, 3]\n")
    assert load_yaml(file).optim.lr == 5e-4
    assert load_yaml(file).seeds == (0, 3)


@pytest.mark.parametrize(
    ("text", "message"), [(None, "no such file"), ("a: [", "cannot be read as YAML"), ("- 1", "must hold sections")]
)
def test_a_bad_file_is_named(text: str | None, message: str, tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        load_yaml(file)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: OrderConfig(kind="rcm", num_clusters=4), "order.num_clusters = 4 contradicts"),
        (lambda: OrderConfig(num_clusters=0), "order.num_clusters"),
        (lambda: OptimConfig(lr=0), "optim.lr"),
        (lambda: OptimConfig(lr=float("nan")), "optim.lr"),
        (lambda: OptimConfig(final_lr=1.0), "optim.final_lr"),
        (lambda: OptimConfig(beta2=1.0), "optim.beta2"),
        (lambda: TrainConfig(epochs=0), "train.epochs"),
        (lambda: TrainConfig(label_smoothing=1.0), "train.label_smoothing"),
        (lambda: TrainConfig(clip_norm=float("nan")), "train.clip_norm"),
        (lambda: from_dict({**SMALL, "seeds": []}), "seeds is empty"),
        (lambda: from_dict({**SMALL, "seeds": [1, 1]}), "seeds must be distinct"),
        (lambda: from_dict({**SMALL, "optim": {"warmup_epochs": 300}}), "optim.warmup_epochs = 300"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_the_order_follows_the_size() -> None:
    assert OrderConfig().resolve(20_000) == "natural"
    assert OrderConfig().resolve(20_001) == "cluster"
    assert OrderConfig(num_clusters=2).resolve(10) == "cluster"
    assert OrderConfig(kind="degree").resolve(10) == "degree"


def test_resolved_paths_hold_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LONGHOP_DATA", str(tmp_path))

    def path(given: str) -> str:
        return resolved(RunConfig(data=DataConfig(path=given), model=GCNConfig())).data.path

    assert path("folder/x.npz") == str(tmp_path / "folder/x.npz")
    assert path("$LONGHOP_DATA/planetoid") == str(tmp_path / "planetoid")
    assert path("synthetic:sbm") == "synthetic:sbm"


def test_configs_are_frozen_and_slotted() -> None:
    for kind in (RunConfig, TrainConfig, OptimConfig, OrderConfig):
        assert dataclasses.is_dataclass(kind)
        assert "__slots__" in vars(kind)
    with pytest.raises(dataclasses.FrozenInstanceError):
        TrainConfig().epochs = 3  # type: ignore[misc]


def test_to_dict_has_plain_values_only() -> None:
    values = to_dict(from_dict(SMALL))
    assert values["seeds"] == [0]
    assert values["model"]["name"] == "gcn"
