"""What must agree between the web's files and the rest; what they do is `make test-web`."""

import json
import re
from importlib.metadata import version
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
