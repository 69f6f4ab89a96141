"""Errors in the words of Python's callers, and texts for people."""

import ast
import re
from pathlib import Path

import pytest

import ftbnn
from ftbnn.errors import Stopped, UserError, first_line, unknown
from ftbnn.text import counted

ROOT = Path(ftbnn.__file__).parent
LIBRARY = [path for path in sorted(ROOT.rglob("*.py")) if path.relative_to(ROOT).parts[0] != "cli"]
FLAG = re.compile(r"(^|[\s`'\"(])--[a-z]")


def said(path):
    """The texts of everything that a file raises or warns of."""
    for node in ast.walk(ast.parse(path.read_text())):
        is_warning = isinstance(node, ast.Call) and ast.unparse(node.func) == "warnings.warn"
        is_error = isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("UserError", "unknown")
        if isinstance(node, ast.Raise) or is_warning or is_error:
            yield from (part.value for part in ast.walk(node) if isinstance(part, ast.Constant))


@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_library_does_not_speak_of_flags(path):
    assert not [text for text in said(path) if isinstance(text, str) and FLAG.search(text)]


def test_near_names_are_offered():
    error = unknown("colour", "rde", ["red", "green", "blue"], hint="three there are")
    assert isinstance(error, UserError)
    assert str(error) == "unknown colour 'rde'; did you mean red, green? (three there are)"
    assert "red, green, blue" in str(unknown("colour", "xyz", ["red", "green", "blue"]))


def test_a_stop_says_how_to_go_on():
    stopped = Stopped(15, "epoch 2, step 3 of 9")
    assert str(stopped) == "stopped at epoch 2, step 3 of 9; everything is saved, go on with Options(resume=True)"


def test_the_first_line_of_an_error():
    assert first_line(ValueError("one\ntwo")) == "one"
    assert first_line(KeyError()) == "KeyError"
    assert (counted(1, "epoch"), counted(2, "epoch"), counted(0, "seed")) == ("1 epoch", "2 epochs", "0 seeds")
