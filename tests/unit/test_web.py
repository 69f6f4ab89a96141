"""What must agree between the web's files and the rest; what they do is `make test-web`."""

import json
import re
from importlib.metadata import version
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

ROOT = Path(__file__).parents[2]
READ_FILES = {"ftbnn_open", "ftbnn_load"}  # of which a page has none


def test_the_module_exports_the_c_api():
    header = (ROOT / "native/include/ftbnn.h").read_text()
    functions = set(re.findall(r"^FTBNN_API .*?(ftbnn_\w+)\(", header, re.MULTILINE))
    exported = {line for line in (ROOT / "native/wasm/exports.txt").read_text().splitlines() if line[0] != "#"}
    assert exported == (functions - READ_FILES) | {"malloc", "free"}


def test_the_npm_package_has_the_projects_version():
    package = json.loads((ROOT / "web/package/package.json").read_text())
    assert (package["name"], package["version"]) == ("ftbnn", version("ftbnn"))


def test_every_module_of_the_package_has_types():
    exports = json.loads((ROOT / "web/package/package.json").read_text())["exports"]
    for entry in exports.values():
        if isinstance(entry, dict):
            assert all((ROOT / "web/package" / path).exists() for path in entry.values())


def test_what_is_missing_is_installed_of_lists_that_are_fresh(monkeypatch):
    """A Debian that was just unpacked has no lists of packages."""
    spec = spec_from_file_location("web_build", ROOT / "web/build.py")
    build = module_from_spec(spec)
    spec.loader.exec_module(build)
    ran = []
    monkeypatch.setattr(build, "run", lambda *command: ran.append(command[:2]))
    monkeypatch.setattr(build.os, "geteuid", lambda: 0)
    monkeypatch.setattr(build.shutil, "which", lambda name: f"/usr/bin/{name}")
    build.require("Node", False, ["nodejs"])
    build.require("Chromium", True, ["chromium"])
    assert ran == [("apt-get", "update"), ("apt-get", "install")]
