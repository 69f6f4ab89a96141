"""Of `make wheels` what needs neither network nor compiler."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_pythons_of_this_machine_are_what_they_say(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "wheels"))
    monkeypatch.setenv("PATH", str(Path(sys.executable).resolve().parent))
    import interpreters

    found = interpreters.here()
    assert f"3.{sys.version_info[1]}" in found
    for version, python in found.items():
        asked = [*python.command, "-c", "import sys; print('.'.join(map(str, sys.version_info[:2])))"]
        assert subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip() == version
