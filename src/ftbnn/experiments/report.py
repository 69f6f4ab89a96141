"""All results as one page that needs nothing else, and as tables inside Markdown files. Needs no PyTorch."""

import base64
import os
import re
from dataclasses import asdict
from datetime import timedelta
from html import escape
from pathlib import Path
from typing import Any

from ftbnn import zoo
from ftbnn.errors import UserError
from ftbnn.experiments import claims_page, curves_page
from ftbnn.experiments.names import EXPERIMENTS
from ftbnn.experiments.result import FILE, LAST_ON_TEST, Column, Table, read
from ftbnn.experiments.scales import SCALES
from ftbnn.text import counted

BLOCK = re.compile(r"<!-- result ([\w.-]+)/([\w.-]+) -->\n.*?<!-- end -->", re.DOTALL)

STYLE = """
:root { color-scheme: light dark; --line: #8886; --soft: #8881; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 62rem; padding: 0 1rem 4rem; }
h1 { margin-bottom: 0; } h2 { margin-top: 3rem; border-top: 2px solid var(--line); padding-top: 1rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 .4rem; }
.facts { font-size: .9rem; opacity: .8; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; font-size: .9rem; min-width: 100%; }
th, td { padding: .35rem .7rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { background: var(--soft); vertical-align: bottom; white-space: normal; min-width: 3.5rem; }
th:first-child, td:first-child, td.text, th.text { text-align: left; }
td.text { white-space: normal; min-width: 5rem; }
td:first-child { min-width: 8rem; }
tr:last-child td { border-bottom: 0; }
figure { margin: 1.5rem 0; } figure img { max-width: 100%; height: auto; background: white; border-radius: 6px; }
figcaption { font-size: .9rem; opacity: .8; }
code { background: var(--soft); padding: .1rem .3rem; border-radius: 4px; overflow-wrap: anywhere; font-size: .85rem; }
details { margin: 1rem 0; } summary { cursor: pointer; }
.missing { opacity: .7; }
nav ul { padding-left: 1.2rem; }
"""


def collect(folder: Path) -> dict[str, dict[str, Any]]:
    """The results under a folder by the name of theirs, in the paper's order; one that is broken is an error."""
    if not folder.is_dir():
        raise UserError(f"no folder {folder}; `ftbnn reproduce` makes results/")
    found = {path.parent.name: read(path.parent) for path in folder.glob(f"*/{FILE}")}
    return dict(sorted(found.items(), key=lambda item: (_place(item[1]["what"]), item[0])))


def _place(what: str) -> int:
    return EXPERIMENTS.index(what) if what in EXPERIMENTS else len(EXPERIMENTS)


def missing(results: dict[str, dict[str, Any]]) -> list[str]:
    """The experiments that no result is of."""
    return [what for what in EXPERIMENTS if what not in {result["what"] for result in results.values()}]


def facts_line(result: dict[str, Any]) -> str:
    """Scale, data, seeds, runs, time and machine in one line."""
    settings = [f"{key}={value}" for key, value in result["settings"].items()]
    threads, is_deploy = result["machine"]["threads"], result["what"] == "deploy"
    parts = [
        f"scale {result['scale']} ({result['scale_about']})",
        f"data {result['data']}",
        *([] if result["what"] == "table4" else [f"width {result['width']}"]),
        counted(result["epochs"], "epoch"),
        *([] if is_deploy else [f"{counted(result['seeds'], 'seed')} asked for"]),
        *settings,
        *([] if is_deploy else [f"{result['runs_finished']} of {counted(result['runs_planned'], 'run')} done"]),
        *([] if is_deploy else [f"{timedelta(seconds=round(result['train_seconds']))} of training"]),
        f"{result['machine']['cpu']}, {counted(threads, 'thread')}",
        result["written"],
    ]
    return "; ".join(parts)


def zoo_table() -> Table:
    """The networks that ship."""
    columns = (
        Column("name", "zoo:"),
        Column("model", "network"),
        Column("width", "width"),
        Column("data", "data"),
        Column("checkpoint_top1", "checkpoint top-1 %", ".2f"),
        Column("packed_top1", "packed top-1 %", ".2f"),
        Column("size_kb", "file kB", ".1f"),
        Column("latency_ms", "ms an image, one thread", ".3f"),
        Column("epoch", "epoch"),
        Column("chosen_on_test", "chosen on test images"),
    )
    return Table("models", "The zoo", columns, _cards())


def zoo_facts() -> Table:
    """What else their cards tell."""
    columns = (
        Column("name", "zoo:"),
        Column("validation_top1", "validation top-1 %", ".2f"),
        Column("test_images", "test images"),
        Column("worst", "worst classes"),
        Column("flops_m", "FLOPs M", ".2f"),
        Column("bops_m", "BOPs M", ".2f"),
        Column("budget_m", "budget M", ".2f"),
        Column("licence", "licence of the data"),
    )
    return Table("facts", "Its cards", columns, _cards())


def _cards() -> list[dict[str, Any]]:
    return [card | _shown(card) for card in map(zoo.card, zoo.names())]


def _shown(card: dict[str, Any]) -> dict[str, Any]:
    return {
        "size_kb": card["size_bytes"] / 1e3,
        "chosen_on_test": card["chosen_on_test"] or "nothing",
        "worst": ", ".join(
            f"{one['class']}: {one['top1']:.1f} % ({one['taken_for']})" for one in card["worst_classes"]
        ),
        **{f"{key}_m": card[key] / 1e6 for key in ("flops", "bops", "budget")},
    }


def page(folder: Path) -> str:
    """The HTML page."""
    results = collect(folder)
    entries = "".join(f'<li><a href="#{escape(key)}">{escape(r["title"])}</a></li>' for key, r in results.items())
    absent = "".join(
        f'<p class="missing">{what} has not been run: <code>ftbnn reproduce {what}</code></p>'
        for what in missing(results)
    )
    sections = "".join(_section(key, result, folder / key) for key, result in results.items())
    claims = claims_page.claims_section(results)
    if claims:
        entries = f'<li><a href="#claims">Claims of the paper</a></li>{entries}'
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,"><title>FTBNN reproduced</title>'
        f"<style>{STYLE}{claims_page.STYLE}{curves_page.STYLE}</style></head><body>\n"
        "<h1>FTBNN reproduced</h1><p>The tables and figures of <i>FTBNN: Rethinking Non-linearity for 1-bit CNNs and "
        "Going Beyond</i> (Su et al., arXiv:2010.09294), each made by one command, the paper's numbers beside ours. "
        "The paper trained on ImageNet; each section says on what data and at what scale these runs were made.</p>\n"
        f'<nav><ul>{entries}<li><a href="#zoo">The zoo</a></li></ul>{absent}</nav>\n{claims}{sections}{_zoo_section()}'
        f"{curves_page.script()}</body></html>\n"
    )


def _section(key: str, result: dict[str, Any], folder: Path) -> str:
    parts = [
        f'<section id="{escape(key)}"><h2>{escape(result["title"])}</h2><p>{_prose(result["about"])}</p>',
        f'<p class="facts">{escape(facts_line(result))}</p><p><code>{escape(result["command"])}</code></p>',
        *(_table(Table.from_json(table)) for table in result["tables"]),
        *(_figure(folder / picture["file"], picture["caption"]) for picture in result["pictures"]),
        curves_page.chart(result["runs"]),
        _details(result),
        "</section>\n",
    ]
    return "".join(parts)


def _prose(text: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))


def _table(table: Table) -> str:
    if not table.rows:
        return ""
    cells = table.cells()
    is_text = [
        any(isinstance(row.get(column.key), str) and row[column.key] for row in table.rows) for column in table.columns
    ]

    def line(tag: str, texts: list[str]) -> str:
        kinds = [' class="text"' if text else "" for text in is_text]
        return "".join(
            f"<{tag}{kind}>{claims_page.verdict(text)}</{tag}>" for kind, text in zip(kinds, texts, strict=True)
        )

    body = "".join(f"<tr>{line('td', row)}</tr>" for row in cells)
    head = f"<thead><tr>{line('th', table.header)}</tr></thead>"
    return f'<h3>{escape(table.caption)}</h3><div class="scroll"><table>{head}<tbody>{body}</tbody></table></div>\n'


def _figure(path: Path, caption: str) -> str:
    try:
        data = base64.b64encode(path.read_bytes()).decode()
    except OSError as error:
        raise UserError(f"cannot read the picture {path}: {error.strerror or error}") from error
    source = f"data:image/png;base64,{data}"
    return f'<figure><img alt="{escape(caption)}" src="{source}"><figcaption>{escape(caption)}</figcaption></figure>\n'


def _details(result: dict[str, Any]) -> str:
    """Every run, and the machine."""
    columns = (
        Column("name", "run"),
        Column("state", "state"),
        Column("top1", "top-1", ".2f"),
        Column("best_top1", "best epoch (validation; of older runs test)", ".2f"),
        Column("chosen", "scores of"),
        Column("train_top1", "training top-1", ".2f"),
        Column("minutes", "minutes", ".1f"),
        Column("images_per_s", "images/s", ".0f"),
        Column("recipe", "recipe"),
        Column("backend", "backend"),
    )
    rows = [
        {"chosen": LAST_ON_TEST}
        | run
        | {
            "backend": " + ".join(dict.fromkeys(run.get("backends", ()))),
            "minutes": run["train_seconds"] / 60,
            "recipe": " + ".join(f"{recipe['name']}, lr {recipe['lr']:g}" for recipe in run["recipes"]),
        }
        for run in result["runs"]
    ]
    machine = result["machine"] | {"versions": ", ".join(f"{k} {v}" for k, v in result["machine"]["versions"].items())}
    facts = "; ".join(f"{key}: {value}" for key, value in machine.items() if value)
    return (
        f"<details><summary>Runs and machine</summary>{_table(Table('runs', 'Runs', columns, rows))}"
        f'<p class="facts">{escape(facts)}</p></details>\n'
    )


def _zoo_section() -> str:
    cards = [zoo.card(name) for name in zoo.names()]
    commands = "".join(
        f"<li><b>{escape(card['name'])}</b> {escape(card.get('about', ''))} "
        f"Licence of the data: {escape(card['licence'])}."
        f"{''.join(f'<br><code>{escape(c)}</code>' for c in (*card['commands'], card['latency_command']))}</li>"
        for card in cards
    )
    text = "Trained networks that come with the package: <code>ftbnn predict zoo:NAME photo.jpg</code>."
    table = _table(zoo_table()) + _table(zoo_facts())
    return f'<section id="zoo"><h2>The zoo</h2><p>{text}</p>{table}<h3>Made by</h3><ul>{commands}</ul></section>\n'


def scales_table() -> Table:
    """How large each scale is."""
    columns = (
        Column("name", "scale"),
        Column("data", "data"),
        Column("width", "width"),
        Column("epochs", "epochs"),
        Column("seeds", "seeds"),
        Column("toy", "figure 2: data, width, epochs, seeds"),
        Column("derived", "table 4: data, budget"),
    )
    rows = [
        asdict(scale)
        | {
            "name": name,
            "toy": f"{scale.toy_data}, {scale.toy_width}, {scale.toy_epochs}, {scale.toy_seeds}",
            "derived": f"{scale.derived_data}, {scale.budget_m:g} M",
        }
        for name, scale in SCALES.items()
    ]
    return Table("scales", "The scales", columns, rows)


def fill(text: str, results_folder: Path, home: Path) -> str:
    """A Markdown text, of a file in `home`, with every block `<!-- result WHAT/TABLE -->` ... `<!-- end -->` renewed.

    `WHAT/pictures` are its pictures; `zoo/models`, `zoo/facts` and `scales/scales` need no result.
    """
    results = collect(results_folder)

    def block(match: re.Match[str]) -> str:
        key, name = match.groups()
        if name == "pictures" and key in results:
            there = os.path.relpath(results_folder / key, home)
            pictures = results[key]["pictures"]
            content = "\n\n".join(f"![{picture['caption']}]({there}/{picture['file']})" for picture in pictures)
        else:
            content = _markdown(key, name, results)
        return f"<!-- result {key}/{name} -->\n{content}\n<!-- end -->"

    return BLOCK.sub(block, text)


def _markdown(key: str, name: str, results: dict[str, dict[str, Any]]) -> str:
    if key in ("zoo", "scales"):
        return {"models": zoo_table, "facts": zoo_facts, "scales": scales_table}[name]().markdown()
    if key not in results:
        return f"*Not run yet: `ftbnn reproduce {key}`.*"
    tables = {table["name"]: Table.from_json(table) for table in results[key]["tables"]}
    if name not in tables:
        raise UserError(f"{key} has no table {name!r}; it has {', '.join(tables)}")
    table = tables[name]
    if not table.rows:
        return f"*No runs yet: `ftbnn reproduce {key}`.*"
    made = "" if name == "claims" else f"\n\n`{results[key]['command']}`; {facts_line(results[key])}."
    return f"{table.caption}:\n\n{table.markdown()}{made}"
