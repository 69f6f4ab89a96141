"""All claims on one page: what the paper says, where, and whether it held here. Needs no PyTorch."""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from ftbnn.experiments.claims import FAILS, HOLDS, OPEN, OWN, SEEDS
from ftbnn.experiments.result import NOTHING

STYLE = """
.holds { color: #1a7f37; } .fails { color: #cf222e; }
svg.effect { display: block; } svg.effect .zero { stroke: currentColor; opacity: .4; }
svg.effect .noise { stroke: #0969da; stroke-width: 3; } svg.effect .ours { fill: #0969da; }
svg.effect .paper { fill: none; stroke: #bc4c00; stroke-width: 1.5; }
"""
WIDTH, HEIGHT, EDGE = 150, 18, 6  # of an effect's picture, in pixels
TEXT = ' class="text"'
COLUMNS = {
    "claim": TEXT,
    "where in the paper": TEXT,
    "here": TEXT,
    "paper": "",
    "ours": "",
    "effect against interval": "",
    "seeds": "",
    "from": TEXT,
}
KINDS = {"hold": HOLDS, "do not": FAILS, "cannot be told": OPEN}


def claims_of(results: Mapping[str, dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The result a claim is judged in, and its row."""
    for key, result in results.items():
        for table in result["tables"]:
            if table["name"] == "claims":
                yield from ((key, row) for row in table["rows"])


def claims_section(results: Mapping[str, dict[str, Any]]) -> str:
    """The paper's claims, then our own questions, each with its effect against its interval."""
    rows = list(claims_of(results))
    if not rows:
        return ""
    asked = [(key, row) for key, row in rows if row.get("where") != OWN]
    own = [(key, row) for key, row in rows if row.get("where") == OWN]
    counts = ", ".join(
        f"{sum(row['verdict'].startswith(kind) for _, row in asked)} {word}" for word, kind in KINDS.items()
    )
    text = (
        f"Of {len(asked)} claims that runs were made for, {counts}, on the data and at the scale of each section: not "
        "on ImageNet. A difference counts if its 95 % interval (Student's t, the spread over seeds pooled over the "
        f"variants of a table) leaves out 0; with fewer than {SEEDS} seeds on a side nothing is judged. The dot is "
        "our difference, the bar its interval, the line 0, the ring the paper's difference; each row has its own scale."
    )
    tables = _table("Claims of the paper", asked) + (_table("Questions of our own", own) if own else "")
    return f'<section id="claims"><h2>Claims of the paper</h2><p>{escape(text)}</p>{tables}</section>\n'


def _table(title: str, rows: list[tuple[str, dict[str, Any]]]) -> str:
    head = "".join(f"<th{kind}>{word}</th>" for word, kind in COLUMNS.items())
    body = "".join(f"<tr>{_cells(key, row)}</tr>" for key, row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<h3>{title}</h3><div class="scroll">{table}</div>\n'


def _cells(key: str, row: dict[str, Any]) -> str:
    noise = "" if row["noise"] is None else f" \u00b1 {row['noise']:.2f}"
    texts = [
        escape(row["claim"]),
        escape(row.get("where") or NOTHING),
        verdict(row["verdict"]),
        NOTHING if row["paper"] is None else f"{row['paper']:+.1f}",
        f"{row['ours']:+.2f}{noise}",
        effect(row["ours"], row["noise"], row["paper"]),
        escape(str(row.get("seeds") or NOTHING)),
        f'<a href="#{escape(key)}">{escape(key)}</a>',
    ]
    return "".join(f"<td{kind}>{text}</td>" for text, kind in zip(texts, COLUMNS.values(), strict=True))


def verdict(text: str) -> str:
    """A verdict in its colour."""
    kind = "holds" if text.startswith(HOLDS) else "fails" if text.startswith(FAILS) else ""
    return f'<span class="{kind}">{escape(text)}</span>' if kind else escape(text)


def effect(ours: float, noise: float | None, paper: float | None) -> str:
    """Our difference with its interval and the paper's, around 0."""
    reach = max(abs(ours) + (noise or 0), abs(paper or 0)) or 1.0

    def x(value: float) -> float:
        return round(WIDTH / 2 + value / reach * (WIDTH / 2 - EDGE), 1)

    middle = HEIGHT / 2
    parts = [f'<path class="zero" d="M{WIDTH / 2:g} 0V{HEIGHT}"/>']
    if noise is not None:
        parts.append(f'<path class="noise" d="M{x(ours - noise)} {middle:g}H{x(ours + noise)}"/>')
    if paper is not None:
        parts.append(f'<circle class="paper" cx="{x(paper)}" cy="{middle:g}" r="5"/>')
    parts.append(f'<circle class="ours" cx="{x(ours)}" cy="{middle:g}" r="3.5"/>')
    label = f"ours {ours:+.2f}" + ("" if noise is None else f" plus or minus {noise:.2f}")
    return (
        f'<svg class="effect" width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'
    )
