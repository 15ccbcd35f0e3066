from pathlib import Path

import pytest
import torch

from longhop.train import checkpoint
from longhop.types import InputError


def fill(text: str):  # type: ignore[no-untyped-def]
    return lambda folder: (folder / checkpoint.NUMBERS).write_text(text)


def test_a_folder_is_replaced_whole(tmp_path: Path) -> None:
    folder = tmp_path / "last"
    for text in ("one", "two", "three"):
        checkpoint.replace_folder(folder, fill(text))
        assert (folder / checkpoint.NUMBERS).read_text() == text
    assert [path.name for path in tmp_path.iterdir()] == ["last"]


def test_a_failure_leaves_the_old_folder(tmp_path: Path) -> None:
    folder = tmp_path / "last"
    checkpoint.replace_folder(folder, fill("one"))

    def full(target: Path) -> None:
        (target / "part").write_text("x")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        checkpoint.replace_folder(folder, full)
    assert checkpoint.find(folder) == folder
    assert [path.name for path in tmp_path.iterdir()] == ["last"]


def test_a_crash_between_the_renames_leaves_a_folder_to_find(tmp_path: Path) -> None:
    folder = tmp_path / "last"
    checkpoint.replace_folder(folder, fill("one"))
    folder.rename(tmp_path / "last.old")
    found = checkpoint.find(folder)
    assert found == tmp_path / "last.old"
    checkpoint.replace_folder(folder, fill("two"))
    assert checkpoint.find(folder) == folder
    assert [path.name for path in tmp_path.iterdir()] == ["last"]
    assert checkpoint.find(tmp_path / "best") is None


def test_tensors_come_back_bit_for_bit_and_without_a_warning(tmp_path: Path) -> None:
    tensors = {
        "a": torch.randn(5, 3),
        "b": torch.randint(-9, 9, (4,)),
        "c": torch.get_rng_state(),
        "d": torch.tensor(2.5, dtype=torch.float64),
    }
    checkpoint.save_tensors(tensors, tmp_path / "state")
    loaded = checkpoint.load_tensors(tmp_path / "state")
    assert loaded.keys() == tensors.keys()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in tensors.items())


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_an_optimiser_goes_on_as_if_nothing_had_been(name: str, tmp_path: Path) -> None:
    from longhop.train.schedule import OptimConfig, make_optimizer

    config = OptimConfig(name=name, lr=0.1, weight_decay=0.01)  # type: ignore[arg-type]
    x = torch.randn(6, 4)

    def steps(model: torch.nn.Linear, optimizer: torch.optim.Optimizer, count: int) -> None:
        for _ in range(count):
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()

    first = torch.nn.Linear(4, 2)
    optimizer = make_optimizer(first, config)
    steps(first, optimizer, 3)
    checkpoint.save_weights(first.state_dict(), tmp_path / "w")
    checkpoint.save_tensors(checkpoint.optimizer_tensors(optimizer), tmp_path / "state")
    second = torch.nn.Linear(4, 2)
    other = make_optimizer(second, config)
    checkpoint.apply_weights(second, tmp_path / "w")
    checkpoint.restore_optimizer(other, checkpoint.load_tensors(tmp_path / "state"))
    steps(first, optimizer, 3)
    steps(second, other, 3)
    assert torch.equal(first.weight, second.weight)


def test_damage_is_named(tmp_path: Path) -> None:
    checkpoint.save_tensors({"a": torch.zeros(100)}, tmp_path / "state")
    (tmp_path / "state" / ".metadata").write_bytes(b"nonsense")
    checkpoint.save_weights({"a": torch.zeros(100)}, tmp_path / "w")
    (tmp_path / "w").write_bytes((tmp_path / "w").read_bytes()[:50])
    for load, path in (
        (checkpoint.load_tensors, "state"),
        (checkpoint.load_tensors, "none"),
        (checkpoint.load_weights, "w"),
    ):
        with pytest.raises(InputError, match=path):
            load(tmp_path / path)
    with pytest.raises(InputError, match=checkpoint.NUMBERS):
        checkpoint.load_numbers(tmp_path)


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    checkpoint.save_weights(torch.nn.Linear(2, 2).state_dict(), tmp_path / "w")
    with pytest.raises(InputError, match="another model"):
        checkpoint.apply_weights(torch.nn.Linear(3, 2), tmp_path / "w")
