"""docs/exchange.md: its example runs as it stands."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs" / "exchange.md"


@pytest.mark.filterwarnings("ignore")
def test_the_worked_example(tmp_path, monkeypatch, capsys):
    pytest.importorskip("brevitas")
    pytest.importorskip("onnxoptimizer")
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.S)
    exec(compile(code, "docs/exchange.md", "exec"), {"__name__": "example"})
    assert "same class for 100% of 16 samples" in capsys.readouterr().out
    assert (tmp_path / "net.ftbnn").exists()
