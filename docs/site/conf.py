"""`make docs`: the README and docs/ as a site, by Sphinx.

The source folder is the repository, and pages keep their places in it, so that one link serves there and here.
"""

from importlib import metadata
from pathlib import Path

from sphinx.application import Sphinx

CONTENTS = (Path(__file__).parent / "contents.md").read_text()

project = "ftbnn"
release = metadata.version("ftbnn")
html_title = f"ftbnn {release}"
html_theme = "furo"
html_copy_source = False
html_show_copyright = False
html_extra_path = ["index.html"]
html_static_path = ["wider.css"]
html_css_files = ["wider.css"]

extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "README"
include_patterns = ["*.md", "docs/**", "benchmarks/reports/*/README.md"]
exclude_patterns = ["docs/site/**"]
myst_heading_anchors = 4
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
add_module_names = False
default_role = "code"  # `words` of docstrings are code, as in the pages
maximum_signature_line_length = 90


def add_contents(_: Sphinx, name: str, source: list[str]) -> None:
    """The README is the first page; what the others are, GitHub's readers need not see."""
    if name == root_doc:
        source[0] += f"\n{CONTENTS}"


def setup(app: Sphinx) -> None:
    app.connect("source-read", add_contents)
