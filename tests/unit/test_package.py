"""What the package promises before anything is computed: its dependencies, its public names and its README."""

import contextlib
import json
import re
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import ftbnn
from ftbnn.cli.main import main, parser

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/start.md")
PYTHON = [code for page in PAGES for code in re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)]
COMMANDS = re.findall(r"```sh\n(.*?)```", (ROOT / "docs/commands.md").read_text(), re.DOTALL)
MOST_LINES = 45


def test_the_light_install_is_numpy_and_pillow():
    light = [r for r in metadata.requires("ftbnn") if "extra ==" not in r]
    assert sorted(re.split(r"[ >=<]", r)[0] for r in light) == ["numpy", "pillow"]


def test_the_public_names_are_there():
    for name in ftbnn.__all__:
        assert getattr(ftbnn, name) is not None
        assert name in dir(ftbnn)
    with pytest.raises(AttributeError, match="no attribute 'train'"):
        ftbnn.train  # noqa: B018
    assert issubclass(ftbnn.UserError, ValueError)


def test_the_first_pages_name_every_public_function():
    blocks = "".join(PYTHON)
    assert len(blocks.splitlines()) <= MOST_LINES, "the public API fits one screen"
    others = {"FormatError", "Model", "UserError", "count"}
    functions = {name for name in ftbnn.__all__ if callable(getattr(ftbnn, name))} - others
    assert not [name for name in sorted(functions) if f"ftbnn.{name}(" not in blocks]


def test_the_commands_do_not_stand_in_each_others_way():
    """From top to bottom: each line that trains has a run directory of its own, unless it goes on with one."""
    trains = [shlex.split(line, comments=True) for line in "".join(COMMANDS).splitlines() if " train ftbnn18" in line]
    parsed = [parser().parse_args(words[words.index("train") :]) for words in trains if "bench" not in words]
    runs = [args.out or f"{args.model}-{args.method}-{args.data}" for args in parsed if not args.resume]
    assert len(runs) > 5
    assert len(set(runs)) == len(runs)


def test_every_method_is_listed_where_a_user_looks(capsys):
    from ftbnn.models import METHODS, REGISTRY

    assert main(["methods"]) == 0
    listed = capsys.readouterr().out
    for looked in (["models"], ["train", "--help"]):
        with contextlib.suppress(SystemExit):
            main(looked)
        assert "`ftbnn methods`" in " ".join(capsys.readouterr().out.split())
    assert "`ftbnn methods`" in (ROOT / "docs" / "methods.md").read_text()
    for name, method in METHODS.items():
        assert name in listed
        assert method.about in listed
        assert method.deploys in listed
        assert "(" in method.published, f"{name} has no source"
        for part in method.published.split(";"):
            assert re.fullmatch(r"(ImageNet|CIFAR-10) .*\d.*", part.strip()), name
            assert part.strip().partition(" ")[2] in listed
    for name, entry in REGISTRY.items():
        assert entry.published.removeprefix("ImageNet ") in listed, name


def test_rows_with_numbers_and_of_ones_own_are_shown_in_full(tmp_path, capsys):
    (tmp_path / "mine.py").write_text('from ftbnn.nn import Method\nMINE = Method("my own way")\n')
    assert main(["methods", f"{tmp_path}/mine.py:MINE"]) == 0
    assert main(["methods", "abc(5,3)"]) == 0
    shown = capsys.readouterr().out
    assert "my own way" in shown
    assert "5 bases of weights, 3 of inputs" in shown
    for wrong in (f"{tmp_path}/mine.py:NONE", "abc(5)", "nothing(3)"):
        assert main(["methods", wrong]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_methods_shows_what_was_reached_here(tmp_path, capsys):
    rows = [{"method": "irnet", "top1": 71.234, "epochs": 20, "seeds": 2}, {"method": "recu", "top1": None}]
    tables = [{"name": "methods", "caption": "", "columns": [], "rows": rows}]
    result = {
        "what": "methods",
        "title": "",
        "data": "cifar10",
        "width": 16,
        "tables": tables,
        "pictures": [],
        "runs": [],
    }
    (tmp_path / "methods").mkdir()
    (tmp_path / "methods" / "result.json").write_text(json.dumps(result))
    assert main(["methods", "irnet", "--results", str(tmp_path)]) == 0
    assert "cifar10 71.23 (width 16, 20 epochs, seeds: 2)" in capsys.readouterr().out
    assert main(["methods", "--results", str(tmp_path / "none")]) == 2
    assert "holds no result.json" in capsys.readouterr().err


NAMES = """
import sys
sys.modules["torch"] = None
import ftbnn
for name in ("nn", "fit", "data"):
    try:
        getattr(ftbnn, name)
    except ftbnn.UserError as error:
        print(error)
"""


def test_without_torch_a_name_says_what_to_install():
    told = subprocess.run([sys.executable, "-c", NAMES], check=True, capture_output=True, text=True).stdout.splitlines()
    install = "needs PyTorch, which the light install leaves out: pip install 'ftbnn[train]'"
    assert told == [f"ftbnn.{name} {install}" for name in ("nn", "fit", "data")]


LOOKED_AT = """
import contextlib, inspect, io, sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocked())
import ftbnn
assert not hasattr(ftbnn, "fit") and not hasattr(ftbnn, "nn") and hasattr(ftbnn, "load")
assert {name for name, _ in inspect.getmembers(ftbnn)} >= {"FormatError", "load", "zoo"}
with contextlib.redirect_stdout(io.StringIO()) as page:
    help(ftbnn)
assert "export_c" in page.getvalue()
from ftbnn import *
assert callable(load) and "fit" not in dir()
for code in sys.stdin.read().splitlines():
    try:
        exec(code)
    except ftbnn.UserError as error:
        print(type(error).__mro__[1].__name__, error)
"""
IMPORTS = {
    "import ftbnn.nn": "ftbnn.nn",
    "from ftbnn.nn import Sign": "ftbnn.nn",
    "from ftbnn.data import load": "ftbnn.data",
    "import ftbnn.models": "ftbnn.models",
    "from ftbnn import nn": "ftbnn.nn",
    "from ftbnn import fit": "ftbnn.fit",
    "from ftbnn.exchange import from_brevitas": "ftbnn.exchange.brevitas",
    "from ftbnn.packing import pack": "ftbnn.packing.export",
}


def test_without_torch_the_package_can_be_looked_at_and_imports_say_what_to_install():
    run = subprocess.run(
        [sys.executable, "-c", LOOKED_AT], input="\n".join(IMPORTS), check=False, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    install = "needs PyTorch, which the light install leaves out: pip install 'ftbnn[train]'"
    assert run.stdout.splitlines() == [f"ModuleNotFoundError {name} {install}" for name in IMPORTS.values()]


def test_a_file_that_is_none_is_a_format_error():
    with pytest.raises(ftbnn.FormatError) as caught:
        ftbnn.load(b"none")
    assert isinstance(caught.value, ftbnn.UserError)


PLAIN_C = """
import sys
sys.modules["torch"] = None
import ftbnn
print(len(ftbnn.export_c("zoo:digits", sys.argv[1]).files))
for what in ("runs/none", None):
    try:
        ftbnn.export_c(what, sys.argv[1])
    except ftbnn.UserError as error:
        print(error)
"""


def test_a_file_becomes_c_without_torch(tmp_path):
    run = subprocess.run([sys.executable, "-c", PLAIN_C, str(tmp_path)], check=True, capture_output=True, text=True)
    files, told, refused = run.stdout.splitlines()
    assert int(files) == len(list(tmp_path.rglob("*.*")))
    assert told.startswith("ftbnn.export_c of a run or a network needs PyTorch")
    assert refused == "what becomes C is a .ftbnn file or zoo:NAME, not None"
