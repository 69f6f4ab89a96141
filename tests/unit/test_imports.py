"""The direction of imports (ARCHITECTURE.md): parsed from the sources, so that a wrong one cannot slip in."""

import ast
from pathlib import Path

import pytest

import ftbnn

ROOT = Path(ftbnn.__file__).parent
MAY_IMPORT = {
    "nn": {"_native"},
    "models": {"nn"},
    "budget": {"nn"},
    "export": {"nn", "runtime", "_native"},
    "data": set(),
    "training": {"data", "models", "nn", "budget", "export", "zoo", "_native"},
    "experiments": {"training", "data", "models", "budget", "export", "runtime", "bench", "nn", "zoo", "_native"},
    "bench": {"models", "nn", "budget", "export", "runtime", "training", "zoo", "_native"},
    "runtime": {"_native", "zoo"},
    "zoo": set(),
    "cli": {
        "bench",
        "experiments",
        "training",
        "data",
        "models",
        "budget",
        "export",
        "runtime",
        "nn",
        "zoo",
        "_native",
    },
}
EVERYONE = {"errors", "files", "drawing", "photos"}
SOURCES = sorted(ROOT.rglob("*.py"))


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


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_the_right_way(path):
    package = path.relative_to(ROOT).parts[0]
    if package.endswith(".py"):
        return
    for module, _ in imported(path):
        if module.startswith("ftbnn."):
            target = module.split(".")[1]
            assert target in MAY_IMPORT[package] | EVERYONE | {package}, f"{path} imports {module}"


@pytest.mark.parametrize("path", [p for p in SOURCES if p.relative_to(ROOT).parts[0] in ("cli", "errors.py")])
def test_the_command_line_loads_no_torch_before_a_verb_needs_it(path):
    heavy = {"torch", "numpy", "PIL", "matplotlib"} | {f"ftbnn.{package}" for package in MAY_IMPORT if package != "cli"}
    for module, at_import in imported(path):
        if at_import:
            assert module.split(".")[0] not in heavy, f"{path} imports {module} when it is imported"
            assert ".".join(module.split(".")[:2]) not in heavy, f"{path} imports {module} when it is imported"
