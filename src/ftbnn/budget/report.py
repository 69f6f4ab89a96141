"""A budget as rows: for JSON, for tables and, summed by stage, for the picture."""

from pathlib import Path
from typing import Any

from ftbnn.budget.count import BITS_PER_WORD, Budget, LayerCount
from ftbnn.drawing import canvas

MEGA = 1e6


def summary(budget: Budget) -> dict[str, Any]:
    """The sums, in millions where the name says so."""
    return {
        "convention": budget.rule.name,
        "input_shape": list(budget.input_shape),
        "flops_m": budget.flops / MEGA,
        "bops_m": budget.bops / MEGA,
        "budget_m": budget.budget / MEGA,
        "binary_share": budget.binary_share,
        "params_m": budget.params / MEGA,
        "packed_bytes": budget.packed_bytes,
        "fp32_bytes": budget.fp32_bytes,
        "uncounted": list(budget.uncounted),
    }


def layer_rows(budget: Budget) -> list[dict[str, Any]]:
    """One row per layer that has work or parameters."""
    return [_layer_row(layer, budget) for layer in budget.layers]


def _layer_row(layer: LayerCount, budget: Budget) -> dict[str, Any]:
    return {
        "path": layer.path,
        "kind": layer.kind,
        "weights": layer.weight_precision,
        "input": layer.input_precision,
        "input_shape": list(layer.input_shape[1:]),
        "output_shape": list(layer.output_shape[1:]),
        "groups": layer.groups,
        "doubled": budget.rule.doubled and layer.zero_one,
        "calls": layer.calls,
        "flops": layer.flops(budget.rule),
        "bops": layer.bops(budget.rule),
        "real_params": layer.real_params,
        "binary_params": layer.binary_params,
        "packed_bytes": layer.packed_bytes,
    }


def stage_rows(budget: Budget) -> list[dict[str, Any]]:
    """FLOPs and BOPs summed over the network's direct children, in millions of budget."""
    stages: dict[str, dict[str, Any]] = {}
    for layer in budget.layers:
        name = layer.path.partition(":")[0].partition(".")[0] or "(network)"
        row = stages.setdefault(name, {"stage": name, "real_m": 0.0, "binary_m": 0.0})
        row["real_m"] += layer.flops(budget.rule) / MEGA
        row["binary_m"] += layer.bops(budget.rule) / BITS_PER_WORD / MEGA
    return [row for row in stages.values() if row["real_m"] or row["binary_m"]]


def plot(budget: Budget, path: Path, *, title: str) -> None:
    """Draws where the budget goes, stage by stage: real work beside binary work."""
    rows = stage_rows(budget)
    names = [row["stage"] for row in rows]
    real = [row["real_m"] for row in rows]
    binary = [row["binary_m"] for row in rows]
    with canvas(path, size=(8, 1.7 + 0.45 * len(rows))) as axes:
        axes.barh(names, real, color="#c44e52", label=f"real-valued: {budget.flops / MEGA:.1f} M FLOPs")
        axes.barh(names, binary, left=real, color="#4c72b0", label=f"binary: {budget.bops / MEGA:.0f} M BOPs / 64")
        for index, row in enumerate(rows):
            total = row["real_m"] + row["binary_m"]
            share = 100 * total / (budget.budget / MEGA)
            axes.text(total, index, f"  {total:.2f} M ({share:.1f} %)", va="center", fontsize=9)
        axes.set_xlim(0, 1.22 * max(a + b for a, b in zip(real, binary, strict=True)))
        axes.invert_yaxis()
        axes.set_xlabel("budget in millions (FLOPs + BOPs / 64)")
        axes.set_title(f"{title}: {budget.budget / MEGA:.1f} M, {100 * budget.binary_share:.0f} % binary")
        axes.spines[["top", "right"]].set_visible(False)
        axes.figure.legend(loc="outside lower center", ncols=2, frameon=False)
