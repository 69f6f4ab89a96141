"""Every block of code in the documentation does what its page says.

Blocks of Python run, those of a page one after the other, and so do lines of the shell that call ftbnn, in this
process. A comment before a block says otherwise, and why:

    <!-- file: NAME -->          the block is also written to that file, for what comes after it
    <!-- parsed: REASON -->      commands go through the real parser only
    <!-- run by TEST, ... -->    another test does it, as it stands on the page
"""

import os
import re
import shlex
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import ftbnn
from ftbnn.cli.main import main, parser
from ftbnn.nn import METHODS, rules

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^(?:<!-- (?P<mark>[^>]*?) -->\n)?```(?P<kind>\w*)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
PAGES = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in sorted((*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")))
    if path.parent.name != "site"
}


def blocks(page):
    return [found.groupdict() for found in BLOCK.finditer(PAGES[page])]


def commands(code):
    """Lines of the shell as words, without comments."""
    joined = code.replace("\\\n", " ")
    return [words for line in joined.splitlines() if (words := shlex.split(line, comments=True))]


def parses(words):
    """True if it is a command of ours, whose words the real parser takes."""
    if words[0] == "torchrun":
        words = words[words.index("ftbnn", 1) :]
    if words[0] == "ftbnn":
        parser().parse_args(words[1:])
    return words[0] == "ftbnn"


@pytest.fixture
def reader(tmp_path, monkeypatch):
    """Where a reader stands: two pictures, and nothing else."""
    noise = np.random.default_rng(0).integers(0, 256, (40, 50, 3), np.uint8)
    Image.fromarray(noise).save(tmp_path / "photo.jpg")
    digit = ftbnn.data.load("digits").test.images[0, 0].numpy()
    Image.fromarray(digit).save(tmp_path / "digit.png")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = dict(METHODS)
    monkeypatch.setattr(rules, "RULES", dict(rules.RULES))
    yield tmp_path
    METHODS.clear()
    METHODS.update(before)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)])
def test_the_page_does_what_it_says(page, reader, capsys):
    names = {"__name__": "page"}
    for block in blocks(page):
        kind, code, (how, _, what) = block["kind"], block["code"], (block["mark"] or "").partition(": ")
        if how == "file":
            (reader / what).write_text(code)
        if how.startswith("run by "):
            test = ROOT / how.removeprefix("run by ").split(",")[0]
            assert page in test.read_text() or kind == "sh", f"{test} does not read {page}"
        elif how == "parsed":
            assert kind == "sh"
            assert what, "say why it is not run"
            subprocess.run(["sh", "-n", "-c", code], check=True)
            ours = [parses(words) for words in commands(code)]
            assert any(ours) or "make" in code
        elif kind == "python":
            exec(compile(code, page, "exec"), names)
        elif kind == "sh":
            for words in commands(code):
                assert words[0] == "ftbnn", f"{words[0]} is not run here: say which test runs it"
                assert main(words[1:]) == 0, f"{shlex.join(words)}\n{capsys.readouterr().err}"
        else:
            assert kind == "", f"nothing runs {kind}: say which test does"


LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")


def anchors(path):
    """As GitHub and the site make them of headings."""
    titles = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    path = ROOT / page
    for file, anchor in LINK.findall(PAGES[page]):
        there = Path(os.path.normpath(path.parent / file)) if file else path
        assert there.exists(), f"{page}: {file}"
        assert not anchor or anchor in anchors(there), f"{page}: {file}#{anchor}"


def test_every_page_is_in_the_contents():
    contents = (ROOT / "docs/site/contents.md").read_text()
    listed = {path for line in re.findall(r"^[\w/*-]+$", contents, re.MULTILINE) for path in ROOT.glob(f"{line}.*")}
    assert not {ROOT / page for page in PAGES if page != "README.md"} - listed


def test_every_public_name_is_in_the_reference():
    text = (ROOT / "docs/api.rst").read_text()
    named = set(re.findall(r"^\.\. auto\w+:: (\w+)$", text, re.MULTILINE))
    assert named == set(ftbnn.__all__) - {"__version__", "nn"}
