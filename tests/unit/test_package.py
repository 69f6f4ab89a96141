"""What the package promises before anything is computed: its dependencies and its README."""

import re
from importlib import metadata
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


def test_the_light_install_is_numpy_and_pillow():
    light = [r for r in metadata.requires("ftbnn") if "extra ==" not in r]
    assert sorted(re.split(r"[ >=<]", r)[0] for r in light) == ["numpy", "pillow"]


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL))
def test_the_readme_runs(code, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out
