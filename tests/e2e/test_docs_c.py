"""docs/microcontroller.md, done as it says."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ftbnn import zoo
from ftbnn.exchange.c_export import footprint
from ftbnn.text import size

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/microcontroller.md").read_text()
BLOCKS = {kind: re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL) for kind in ("sh", "c")}
pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where a reader would stand: the project's examples, and the program of the page."""
    place = tmp_path_factory.mktemp("page")
    (place / "native").symlink_to(ROOT / "native")
    (place / "app.c").write_text(BLOCKS["c"][0])
    return place


def do(text, folder):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-e", "-c", text],
        cwd=folder,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_worked_example(folder):
    into_c, app, inspect, on_a_microcontroller = BLOCKS["sh"]
    assert "100% tests passed" in do(into_c, folder)
    assert do(app, folder).strip() in zoo.card("digits")["classes"]
    assert "float operations" in do(inspect, folder)
    if shutil.which("arm-none-eabi-gcc") is None or shutil.which("qemu-system-arm") is None:
        pytest.skip("not installed (Debian: gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm)")
    assert do(on_a_microcontroller, folder).startswith("ok: ")


def test_the_table_says_what_the_command_says():
    rows = dict(re.findall(r"^\| ([^|]+?) \| ([^|]+ \| [^|]+ \| [^|]+) \|", PAGE, re.MULTILINE))
    names = re.findall(r"zoo:([a-z-]+)", re.search(r"^\| \| (.*)", PAGE, re.MULTILINE)[1])
    took = [footprint(zoo.resolve(f"zoo:{name}")) for name in names]
    assert rows["accuracy"] == " | ".join(f"{zoo.card(name)['packed_top1']:.2f} %" for name in names)
    assert rows["constants"] == " | ".join(size(one.constant_bytes) for one in took)
    assert rows["RAM"] == " | ".join(f"{one.arena_bytes / 1e3:.1f} kB" for one in took)
    assert rows["binary products"] == " | ".join(f"{one.binary_operations / 1e6:.2f} M" for one in took)
    assert rows["float operations"] == " | ".join(f"{one.float_operations / 1e6:.2f} M" for one in took)
