import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ftbnn.cli.main import VERBS, main


@pytest.fixture
def run(capsys):
    def call(*argv):
        try:
            code = main(argv)
        except SystemExit as stop:
            code = stop.code
        return code, *capsys.readouterr()

    return call


def shell(*argv, env=None):
    return subprocess.run(
        [sys.executable, "-m", "ftbnn", *argv],
        env=os.environ | (env or {}),
        capture_output=True,
        text=True,
        check=False,
    )


def test_info_is_quick_and_loads_no_torch():
    code = (
        "import sys, ftbnn.cli.main as m; m.main(['info']); sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "isa" in result.stdout


def test_info_json(run):
    code, out, _ = run("info", "--json")
    info = json.loads(out)
    assert code == 0
    assert info["isa"] in info["isas"]
    assert info["cores"] >= 1
    assert set(info["versions"]) >= {"ftbnn", "python", "numpy", "torch"}


def test_info_with_a_forced_isa():
    assert json.loads(shell("info", "--json", env={"FTBNN_ISA": "portable"}).stdout)["isa"] == "portable"
    wrong = shell("info", env={"FTBNN_ISA": "sse9"})
    assert wrong.returncode == 2
    assert wrong.stderr.count("\n") == 1


def test_models(run):
    code, out, _ = run("models", "--json")
    assert code == 0
    assert len(json.loads(out)) >= 36
    code, out, _ = run("models", "d34")
    assert code == 0
    assert "ftbnn-d34-g5-135m" in out
    assert "ftbnn18 " not in out


def test_budget_paper_json(run):
    code, out, _ = run("budget", "--paper", "--json")
    assert code == 0
    assert len(json.loads(out)) == 20


def test_budget_paper_table_shows_the_other_lines(run):
    _, out, _ = run("budget", "--paper")
    for text in ("4579.06", "-0.94", "163.99", "192.89", "15.51", "77.10"):
        assert text in out


def test_budget_json_with_layers(run):
    code, out, _ = run("budget", "ftbnn18", "--layers", "--json", "--convention", "conv-only")
    budget = json.loads(out)
    assert code == 0
    assert round(budget["budget_m"], 2) == 163.99
    assert {"path", "weights", "input", "groups", "doubled", "flops", "bops"} <= set(budget["layers"][0])
    assert sum(layer["flops"] for layer in budget["layers"]) == round(budget["flops_m"] * 1e6)


def test_budget_text_and_picture(run, tmp_path):
    code, out, _ = run(
        *("budget", "ftbnn-d18-g3-v9", "--layers", "--image-size", "32", "--classes", "10"),
        *("--stem", "small", "--plot", str(tmp_path / "x.png")),
    )
    assert code == 0
    assert "(doubled)" in out
    assert "?" not in out
    assert (tmp_path / "x.png").stat().st_size > 1000


def test_a_measured_budget_tells_of_its_picture(run, tmp_path):
    words = ["budget", "ftbnn18", "--width", "4", "--image-size", "32", "--stem", "small", "--measure"]
    code, out, _ = run(*words, "--plot", str(tmp_path / "x.png"))
    assert code == 0
    assert out.endswith(f"drawn to {tmp_path / 'x.png'}\n")
    assert "1 thread" in out
    code, _, err = run(*words, "--threads", "0")
    assert code == 2
    assert "threads must be a whole number from 1" in err


def test_budget_of_ones_own_network(run, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "from torch import nn\ndef net(classes=3): return nn.Sequential(nn.Flatten(), nn.Linear(192, classes))"
    )
    code, out, _ = run("budget", f"{path}:net", "--image-size", "8", "--json")
    assert code == 0
    assert json.loads(out)["flops_m"] * 1e6 == pytest.approx(192 * 3 + 3)


@pytest.mark.filterwarnings("default")
def test_an_uncounted_layer_is_warned_of(run, tmp_path):
    path = tmp_path / "strange.py"
    path.write_text(
        "import torch\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return torch.cumsum(x, 1)\n"
    )
    code, out, err = run("budget", f"{path}:Net", "--json")
    assert code == 0
    assert "cumsum" in err
    assert json.loads(out)["uncounted"]


def test_design(run):
    code, out, _ = run("design", "--layers", "34", "--groups", "5", "--budget", "135", "--json")
    result = json.loads(out)
    assert code == 0
    assert result["best"]["v"] == 89
    assert result["best"]["budget_m"] <= 135 < result["neighbours"][3]["budget_m"]
    _, text, _ = run("design", "--layers", "34", "--groups", "5", "--budget", "135")
    assert "->  ftbnn-d34-g5-v89" in text


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["budget", "ftbn18"], "ftbnn18"),
        (["budget", "ftbnn-d18-g90-v8"], "groups"),
        (["budget", "ftbnn18", "--classes", "0"], "classes must be 1 or more"),
        (["budget", "ftbnn18", "--image-size", "-3"], "image size must be 1 or more"),
        (["budget", "ftbnn18", "--image-size", "16"], "smallest image size that works is 17"),
        (["budget", "ftbnn18", "--plot", "/no/such/folder/x.png"], "cannot write"),
        (["budget", "no/such/file.py:net"], "cannot read"),
        (["budget", "ftbnn18", "--threads", "0"], "--threads is of --measure"),
        (["budget", "ftbnn18", "--measure", "--layers"], "leave --layers out"),
        (["budget", "--paper", "--threads", "2"], "leave the other options out"),
        (["budget"], "give a model name"),
        (["budget", "ftbnn18", "--paper"], "give a model name"),
        (["budget", "ftbnn18", "--convention", "mine"], "conv-only"),
        (["design", "--layers", "19", "--budget", "90"], "18"),
        (["design", "--layers", "18", "--groups", "0", "--budget", "90"], "groups must be 1 or more"),
        (["design", "--layers", "18", "--budget", "0.1"], "no network fits"),
        (["design", "--layers", "18", "--budget", "-4"], "--budget"),
        (["design", "--layers", "18", "--budget", "inf"], "--budget is a number of millions above 0, not inf"),
        (["design", "--layers", "18", "--budget", "90000000"], "--budget is in millions"),
        (["design", "--latency", "inf"], "milliseconds above 0, not inf"),
        (["design", "--layers", "18", "--budget", "90", "--image-size", "8"], "too small"),
        (["models", "xyz"], "unknown model"),
        (["budgte"], "budget"),
        (["trian", "ftbnn18"], "did you mean train"),
        (["train", "--epochs", "3"], "--help"),
        ([], "VERB"),
        (["train", "ftbnn18", "--epochs", "3"], "--set KEY=VALUE"),
        (["info", "--verbose"], "no such option: --verbose"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_two(run, argv, message):
    code, out, err = run(*argv)
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1
    assert message in err


def test_without_torch_the_verbs_say_what_to_install():
    """A stand-in for the light install: an import hook that has never heard of torch."""
    code = (
        "import importlib.util as u, sys; real = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'torch' else real(name, *a)\n"
        "from ftbnn.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, "budget", "ftbnn18"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert "pip install 'ftbnn[train]'" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_closed_pipe_is_no_error():
    result = subprocess.run(
        f"{sys.executable} -m ftbnn models | head -1", shell=True, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("words", [["models", "--json"], ["info"]])
def test_a_full_disk_behind_the_output_is_one_line(words):
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "ftbnn", *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert result.returncode == 2
    assert result.stderr == f"ftbnn {words[0]}: cannot write the output: No space left on device\n"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_and_json(run, verb):
    code, out, _ = run(verb, "--help")
    assert code == 0
    assert "--json" in out
