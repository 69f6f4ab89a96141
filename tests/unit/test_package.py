"""What the package promises before anything is computed: its dependencies, its public names and its README."""

import re
from importlib import metadata
from pathlib import Path

import pytest

import ftbnn

README = Path(__file__).parents[2] / "README.md"
PYTHON = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
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


def test_the_readme_names_every_public_function():
    blocks = "".join(PYTHON)
    assert len(blocks.splitlines()) <= MOST_LINES, "the public API fits one screen"
    functions = {name for name in ftbnn.__all__ if callable(getattr(ftbnn, name))} - {"Model", "UserError", "count"}
    assert not [name for name in sorted(functions) if f"ftbnn.{name}(" not in blocks]


@pytest.mark.parametrize("code", PYTHON)
def test_the_readme_runs(code, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out
