"""The direction of imports: parsed from the sources, so that a wrong one cannot slip in."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import ftbnn

ROOT = Path(ftbnn.__file__).parent
# Each room and what it may import from, beside itself and what is everyone's. Downwards only: never from a row above.
MAY_IMPORT = {
    "cli": {
        "experiments",
        "workflows",
        "exchange",
        "bench",
        "training",
        "packing",
        "budget",
        "models",
        "data",
        "page",
        "runtime",
        "zoo",
    },
    "experiments": {"workflows", "bench", "training", "packing", "budget", "models", "data", "nn", "zoo"},
    "workflows": {
        "exchange",
        "bench",
        "training",
        "packing",
        "budget",
        "models",
        "data",
        "tracing",
        "nn",
        "runtime",
        "zoo",
    },
    "exchange": {"packing", "runtime"},
    "bench": {"training", "packing", "budget", "models", "data", "nn", "runtime", "zoo", "_native"},
    "training": {"packing", "models", "data", "tracing", "nn"},
    "packing": {"tracing", "nn", "runtime", "_native"},
    "budget": {"tracing", "nn"},
    "models": {"nn", "zoo"},
    "data": {"_native"},
    "tracing": {"nn"},
    "nn": {"_native"},
    "page": {"zoo"},
    "runtime": {"zoo", "_native"},
    "zoo": set(),
    "_native": set(),
}
EVERYONE = {"drawing", "errors", "files", "groups", "json_text", "machine", "own", "photos", "sounds", "text"}
# The compiled extension has few doors: the rest asks `machine.capabilities()`.
EXTENSION = ("nn/native/", "data/transforms.py", "packing/read.py", "runtime/", "bench/", "machine.py")
LIGHT = EVERYONE - {"photos", "sounds"}  # needs neither NumPy nor Pillow
SOURCES = sorted(ROOT.rglob("*.py"))
NAMES = [str(path.relative_to(ROOT)) for path in SOURCES]


def imported(path):
    """(module, is at import time) for every import statement of the file."""
    tree = ast.parse(path.read_text())
    top = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (
                (f"{node.module}.{a.name}" if node.module == "ftbnn" else node.module, id(node) in top)
                for a in node.names
            )
        elif isinstance(node, ast.Import):
            yield from ((alias.name, id(node) in top) for alias in node.names)


def rooms(path):
    """The rooms of the package that a file imports from."""
    return {module.split(".")[1] for module, _ in imported(path) if module.startswith("ftbnn.")}


def test_the_table_goes_downwards():
    order = list(MAY_IMPORT)
    for place, (room, others) in enumerate(MAY_IMPORT.items()):
        assert others <= set(order[place + 1 :]), f"{room} would import from above"


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("__init__.py", "__main__.py")])
def test_imports_point_the_right_way(name):
    room = name.partition("/")[0].removesuffix(".py")
    allowed = EVERYONE | {"_native"} if room in EVERYONE else MAY_IMPORT[room] | EVERYONE | {room}
    assert rooms(ROOT / name) <= allowed


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith(EXTENSION)])
def test_the_extension_is_entered_by_few_doors(name):
    assert "_native" not in rooms(ROOT / name)


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("cli/") or name[:-3] in LIGHT])
def test_the_command_line_loads_no_torch_before_a_verb_needs_it(name):
    ours = {f"ftbnn.{room}" for room in LIGHT | {"cli"}}
    for module, at_import in imported(ROOT / name):
        package = ".".join(module.split(".")[:2])
        if at_import:
            assert module.split(".")[0] not in {"torch", "numpy", "PIL", "matplotlib"}
            assert package in ours or not package.startswith("ftbnn."), f"{name} imports {module} when it is imported"


def run(code):
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_runtime_needs_no_torch():
    run(
        "import sys; sys.modules['torch'] = None; import ftbnn.runtime, ftbnn.runtime.images\n"
        "sys.exit(any(name.startswith('ftbnn.training') for name in sys.modules))"
    )


def test_the_layers_need_no_extension():
    run(
        "import sys; sys.modules['ftbnn._native'] = None; import ftbnn, torch\n"
        "ftbnn.nn.BConv(3, 4)(torch.randn(1, 3, 5, 5)).sum().backward()"
    )


def test_the_package_itself_loads_nothing_heavy():
    run("import sys, ftbnn; dir(ftbnn); sys.exit('torch' in sys.modules or 'numpy' in sys.modules)")
