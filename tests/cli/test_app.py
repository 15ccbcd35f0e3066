import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from longhop.cli.app import COMMANDS, main
from longhop.cli.arguments import options, parse
from longhop.cli.train import Arguments, default_arguments, parse_seeds
from longhop.recipes import RECIPES
from longhop.types import InputError

SMALL = ["--train.epochs", "3", "--train.allocator", "False", "--optim.warmup_epochs", "0"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LONGHOP_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def yaml(folder: Path) -> str:
    (folder / "tiny.yaml").write_text(
        "data: {path: 'synthetic:sbm?num_nodes=60'}\nmodel: {name: gcn, hidden: 8}\ntrain: {epochs: 4}\n"
    )
    return "tiny.yaml"


def run_python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_a_reader_that_leaves_gets_no_traceback() -> None:
    code = "import sys, longhop.cli.app as app; sys.exit(app.main(['bench', 'attention', '--help']))"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait() == 128 + 13


def test_the_command_line_imports_nothing_heavy_and_nothing_touches_cuda() -> None:
    code = "import sys, longhop, longhop.cli.app as app; app.main(['--version']); print('torch' in sys.modules)"
    assert run_python(code).splitlines()[-1] == "False"
    code = "import longhop.cli.train, torch; print(torch.cuda.is_initialized())"
    assert run_python(code) == "False"


def test_usage_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert main(["--help"]) == 0
    printed = capsys.readouterr().out
    assert all(f"  {name} " in printed for name in COMMANDS)
    assert main(["train", "--help"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in RECIPES)


@pytest.mark.parametrize("command", ["inspect", "evaluate", "predict", "doctor", "bench"])
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.suppress(SystemExit):  # tyro's help leaves by itself
        assert main([command, "--help"]) == 0
    assert f"usage: longhop {command}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("trian demo", "unknown command trian; the nearest known one is train"),
        ("train demoo", "neither a YAML file nor a recipe; the nearest recipe is demo"),
        ("train none.yaml", "none.yaml: no such file"),
        ("train tiny.yaml --model.hiden 3", "unknown option --model.hiden; the nearest known one is --model.hidden"),
        ("train tiny.yaml --heads=3", "unknown option --heads"),
        ("train tiny.yaml --optim.lr fast", "--optim.lr: could not convert string to float: 'fast'"),
        ("train tiny.yaml --optim.lr -1", "optim.lr must be positive, got -1.0"),
        ("train tiny.yaml --train.setting both", "--train.setting"),
        ("train tiny.yaml --model.name gat", "--model.name gat: choose from gcn"),
        ("train tiny.yaml --model.name graphormer --model.heads 7", "heads must divide hidden"),
        ("train tiny.yaml --seeds 4-x", "--seeds 4-x: give numbers and ranges"),
        ("train tiny.yaml --seeds 4-2", "seeds is empty"),
        ("train tiny.yaml --force_resume", "--force-resume contradicts --resume never"),
        ("train tiny.yaml --optim.warmup_epochs 9", "optim.warmup_epochs = 9 leaves nothing"),
        ("train tiny.yaml --data.path nowhere/x.npz", "nowhere/x.npz: no such file"),
        ("train tiny.yaml --data.split 7", "split is 7"),
        ("train tiny.yaml --order.kind rcm --order.num_clusters 3", "contradicts order.kind"),
        ("train tiny.yaml --out tiny.yaml", "is a file"),
        ("inspect nowhere/data", "nowhere"),
        ("evaluate nowhere", "holds no config.yaml"),
        ("predict nowhere", "holds no config.yaml"),
        ("evaluate", "run"),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_nothing(
    words: str, message: str, yaml: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.startswith("longhop: ")
    assert printed.err.count("\n") == 1
    assert {path.name for path in folder.iterdir()} <= {"tiny.yaml", "cache"}


def test_train_evaluate_predict(yaml: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", yaml, "--model.hidden", "4", "--seeds", "0-1", *SMALL]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("longhop 0.")
    assert "threads" in lines[0]
    assert "fingerprint" in lines[1]
    assert "N 60, E " in lines[1]
    assert "setting transductive" in lines[2]
    assert "parameters" in lines[3]
    assert "order natural" in lines[3]
    assert any(line.startswith("seed 1 epoch 3/3: loss ") for line in lines)
    results = json.loads((folder / "runs/tiny/results.json").read_text())
    assert results["config"]["model"]["hidden"] == 4
    assert results["command"] == "longhop " + " ".join(words)
    assert lines[-1] == f"test accuracy {100 * results['summary']['test']['mean']:.1f} %"
    assert main(["evaluate", "runs/tiny", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["summary"] == results["summary"]
    assert main(["evaluate", "runs/tiny", "--seed", "1"]) == 0
    assert "seed 1, epoch" in capsys.readouterr().out
    assert main(["predict", "runs/tiny"]) == 0
    assert len((folder / "runs/tiny/predictions.csv").read_text().splitlines()) == 61


def test_runs_without_a_name_are_numbered_and_resume_takes_the_last(yaml: str, folder: Path) -> None:
    assert main(["train", yaml]) == 0
    assert main(["train", yaml, *SMALL]) == 0
    assert main(["train", yaml, *SMALL, "--resume", "auto"]) == 0
    assert sorted(path.name for path in (folder / "runs").iterdir()) == ["tiny", "tiny-2"]


def test_another_model_starts_from_its_own_defaults(yaml: str, folder: Path) -> None:
    words = ["--model.name", "gt", "--model.hidden", "8", "--model.heads", "2", "--model.layers=1"]
    assert main(["train", yaml, *words, *SMALL]) == 0
    model = json.loads((folder / "runs/tiny/results.json").read_text())["config"]["model"]
    assert (model["name"], model["hidden"], model["dropout"]) == ("gt", 8, 0.1)


def test_a_failed_training_is_one_sentence_and_code_one(yaml: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--optim.lr", "1e30", "--train.epochs", "60", "--model.dropout", "0", "--model.name", "sage"]
    assert main(["train", yaml, *words]) == 1
    assert "the loss is" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "seeds"), [("0-4", (0, 1, 2, 3, 4)), ("7", (7,)), ("0,2,5-6", (0, 2, 5, 6)), ("1, 3", (1, 3))]
)
def test_seeds(text: str, seeds: tuple[int, ...]) -> None:
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "a", "-1", "1-", "1.5"])
def test_seeds_that_are_none(text: str) -> None:
    with pytest.raises(InputError, match="give numbers and ranges"):
        parse_seeds(text)


def test_no_option_comes_or_goes_unnoticed() -> None:
    """What scripts may rely on; a change here belongs in the changelog."""
    expected_options = {
        "": "seeds out resume force_resume",
        "order": "kind num_clusters seed",
        "optim": "name lr weight_decay beta1 beta2 eps schedule warmup_epochs power final_lr",
        "train": "epochs eval_every patience setting split_per_seed label_smoothing clip_norm save_every "
        "allocator threads",
    }
    expected = {
        f"{section}.{name}".lstrip(".") for section, names in expected_options.items() for name in names.split()
    }
    found = {name for name, _ in options(Arguments, default_arguments(RECIPES["demo"](), []))}
    assert {name for name in found if not name.startswith(("data.", "model."))} == expected


def test_doctor(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"versions", "native", "hardware", "malloc", "extras"} <= found.keys()
    assert (found["native"]["reason"] is None) == found["native"]["available"]
    monkeypatch.setattr("longhop.ops.native.load", lambda: "it was not built")
    assert main(["doctor"]) == 0
    assert "none, the slow reference path runs: it was not built" in capsys.readouterr().out


def test_inspect(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "synthetic:sbm?num_nodes=50", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["num_nodes"] == 50
    assert main(["inspect", "synthetic:sbm?num_nodes=50"]) == 0
    assert "fingerprint" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words", [["--model.self_loops", "true"], ["--model.self-loops=true"], ["--model.self_loops", "True"]]
)
def test_booleans_are_written_as_in_yaml_too(words: list[str]) -> None:
    default = default_arguments(RECIPES["photo_sage"](), [])
    assert parse(Arguments, words, prog="x", default=default).model.self_loops  # type: ignore[union-attr]
    assert parse(Arguments, ["--out", "true"], prog="x", default=default).out == "true"
