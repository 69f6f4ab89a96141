"""A budget for people: rows for JSON, tables, and, summed by stage, the picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from ftbnn.budget.count import BITS_PER_WORD, UNIT_BITS, Budget, LayerCount, count
from ftbnn.drawing import canvas
from ftbnn.nn.layer import check_network, layers
from ftbnn.text import size, table

MEGA = 1e6


def totals(budget: Budget) -> dict[str, Any]:
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
        "rounded_params": layer.rounded_params,
        "packed_bytes": layer.packed_bytes,
    }


def layer_table(budget: Budget) -> str:
    """One line per layer."""
    header = "layer,kind,weights,input,in,out,groups,FLOPs M,BOPs M,weights #,packed".split(",")
    rows = [
        [
            row["path"] or "(network)",
            row["kind"],
            row["weights"],
            row["input"],
            "x".join(map(str, row["input_shape"])),
            "x".join(map(str, row["output_shape"])),
            row["groups"],
            f"{row['flops'] / 1e6:.3f}",
            f"{row['bops'] / 1e6:.3f}" + (" (doubled)" if row["doubled"] else ""),
            row["real_params"] + row["binary_params"] + row["rounded_params"],
            size(row["packed_bytes"]),
        ]
        for row in layer_rows(budget)
    ]
    return table(header, rows)


def sums(budget: Budget) -> str:
    """The sums as lines."""
    shape, share = "x".join(map(str, budget.input_shape)), f"{budget.binary_share:.1%} of it binary"
    return "\n".join(
        [
            f"input {shape}, convention {budget.rule.name}",
            f"  FLOPs         {budget.flops / 1e6:10.3f} M",
            f"  BOPs          {budget.bops / 1e6:10.3f} M",
            f"  budget        {budget.budget / 1e6:10.3f} M   (FLOPs + BOPs / 64; {share})",
            f"  params        {budget.params / 1e6:10.4f} M   (real + binary / 32)",
            f"  size packed   {size(budget.packed_bytes):>12}",
            f"  size as fp32  {size(budget.fp32_bytes):>12}",
        ]
    )


class Summary(str):
    """Text that a notebook and a prompt show as it is."""

    def __repr__(self) -> str:
        return str(self)


def summary(network: nn.Module, input_shape: Sequence[int] | None = None) -> Summary:
    """A table of the network's layers: weights, bits and bytes, and for images of (channels, height, width) what each
    layer costs."""
    check_network(network, "summary")
    if input_shape is not None:
        budget = count(network, input_shape)
        return Summary(f"{layer_table(budget)}\n\n{type(network).__name__}, {sums(budget)}")
    binary = {id(parameter) for _, layer in layers(network) for parameter in layer.binary_parameters()}
    rounded = {id(p): bits for _, layer in layers(network) for p, bits in layer.rounded_parameters().items()}
    rows, real_total, binary_total, packed_total = [], 0, 0, 0
    seen: set[int] = set()
    for path, module in network.named_modules():
        own = [p for p in module.parameters(recurse=False) if id(p) not in seen]
        seen.update(map(id, own))
        if not own:
            continue
        bits = sum(p.numel() for p in own if id(p) in binary)
        real = sum(p.numel() for p in own) - bits
        saved = sum((32 - rounded[id(p)]) * p.numel() - UNIT_BITS * len(p) for p in own if id(p) in rounded)
        packed = 4 * real - saved // 8 + -(-bits // 8)
        rows.append([path or "(network)", type(module).__name__, real, bits, size(packed)])
        real_total, binary_total, packed_total = real_total + real, binary_total + bits, packed_total + packed
    text = table(["layer", "kind", "real weights", "binary weights", "packed"], rows)
    end = f"{real_total} real and {binary_total} binary weights, {size(packed_total)} packed"
    end += "; give input_shape for operations"
    return Summary(f"{text}\n\n{type(network).__name__}: {end}")


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
