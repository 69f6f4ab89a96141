"""Table 3: which non-linear modules a 1-bit network needs; the paper's ablation with one recipe for all variants."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from ftbnn.drawing import canvas
from ftbnn.experiments.claims import Claim, judge, spread, values
from ftbnn.experiments.queue import Job, Record, Request
from ftbnn.experiments.result import Column, Findings, Picture, Table
from ftbnn.text import counted

TITLE = "Table 3: non-linear modules"
ABOUT = (
    "The paper ablates the non-linear modules of its baseline on ImageNet: without any it loses 7.7 points, ReLU at "
    "the stage ends alone recovers most, FPReLU elsewhere the rest; ReLU everywhere diverges at the common learning "
    "rate. Here the binary variants are trained with one recipe on smaller images, the real-valued network with its "
    "own. Scores are test accuracies of the epoch that is best on held-out training images; of the last epoch where "
    "none are held out, as in older runs. Three variants that the paper does not have ask why FPReLU everywhere trails "
    "PReLU here: for where its slopes start, or for want of epochs?"
)
ALL_RELU = "ftbnn18-relu"
LOW_LR = "0.00015"  # the paper's rate for all-ReLU
QUARTER, LONG, LONG_PRELU = "ftbnn18-fprelu-quarter", "ftbnn18-fprelu-twice", "ftbnn18-prelu-twice"


@dataclass(frozen=True)
class Variant:
    """A row as the paper prints it (ImageNet)."""

    name: str
    about: str
    top1: float | None
    top5: float | None


PLAIN = Variant("ftbnn18-none", "no non-linear modules", 52.5, 76.0)
# The order is the paper's; what it does not have comes last.
VARIANTS = (
    Variant("bireal18", "Bi-Real Net, this recipe", 52.3, 75.9),
    PLAIN,
    Variant("ftbnn18-prelu", "all PReLU", 58.9, 81.1),
    Variant("ftbnn18-fprelu", "all FPReLU", 59.3, 81.3),
    Variant(f"{ALL_RELU}-low-lr", f"all ReLU, lr {LOW_LR}", 45.9, 70.5),
    Variant(ALL_RELU, "all ReLU at the common lr", None, None),
    Variant("ftbnn18-stage-relu", "ReLU at stage ends only", 59.6, 81.4),
    Variant("ftbnn18-stage-relu-prelu", "ReLU at stage ends, PReLU elsewhere", 59.7, 81.6),
    Variant("ftbnn18", "baseline: ReLU at stage ends, FPReLU elsewhere", 60.2, 82.0),
    Variant("resnet18", "real-valued ResNet-18", 69.8, 89.2),
    Variant(QUARTER, "all FPReLU, slopes start at 0.25 and 1", None, None),
    Variant(LONG, "all FPReLU, twice the epochs", None, None),
    Variant(LONG_PRELU, "all PReLU, twice the epochs", None, None),
)
LABELS = {variant.name: variant.about for variant in VARIANTS}
PAPER_TOP1 = {variant.name: variant.top1 for variant in VARIANTS}
TELLING = ("ftbnn18", "ftbnn18-none", "ftbnn18-fprelu", "ftbnn18-prelu", "ftbnn18-stage-relu")
NOTES = {
    ALL_RELU: "the paper's diverges, this one does not",
    "resnet18": "a recipe of its own",
}
SETTLING = (QUARTER, LONG, LONG_PRELU)
FURTHER = (ALL_RELU, "bireal18", "resnet18", "ftbnn18-stage-relu-prelu", f"{ALL_RELU}-low-lr")

CLAIMS = (
    Claim("the baseline beats no non-linear modules", "ftbnn18", "ftbnn18-none", 7.7),
    Claim("the baseline beats Bi-Real Net", "ftbnn18", "bireal18", 7.9),
    Claim("leaving the scale to BatchNorm costs nothing", "ftbnn18-none", "bireal18", 0.2, equal=True),
    Claim("PReLU beats no non-linear modules", "ftbnn18-prelu", "ftbnn18-none", 6.4),
    Claim("FPReLU beats PReLU", "ftbnn18-fprelu", "ftbnn18-prelu", 0.4),
    Claim("four ReLUs beat PReLU everywhere", "ftbnn18-stage-relu", "ftbnn18-prelu", 0.7),
    Claim("FPReLU beside the four ReLUs adds to them", "ftbnn18", "ftbnn18-stage-relu", 0.6),
    Claim("FPReLU beats PReLU beside the four ReLUs", "ftbnn18", "ftbnn18-stage-relu-prelu", 0.5),
    Claim("the four ReLUs add to FPReLU", "ftbnn18", "ftbnn18-fprelu", 0.9),
    Claim("ReLU everywhere, at its low rate, is worst", PLAIN.name, f"{ALL_RELU}-low-lr", 6.6),
    Claim("at the common rate it is no better than none", PLAIN.name, ALL_RELU, None, own=True),
    Claim("the real-valued network is still ahead", "resnet18", "ftbnn18", 9.6),
    Claim("FPReLU gains by slopes that start at 0.25 and 1", QUARTER, "ftbnn18-fprelu", None, own=True),
    Claim("it is then where PReLU is", QUARTER, "ftbnn18-prelu", None, equal=True, own=True),
    Claim("after twice the epochs FPReLU is where PReLU is", LONG, LONG_PRELU, None, equal=True, own=True),
)


def job(variant: str, seed: int, request: Request) -> Job:
    """The run of a variant; figure 1 and tables 1 and 2 ask for the same ones, so that they are made once."""
    suffixes = {"-low-lr": {"lr": LOW_LR}, "-twice": {"epochs": str(2 * request.epochs)}}
    suffix = next((suffix for suffix in suffixes if variant.endswith(suffix)), "")
    model = variant.removesuffix(suffix)
    family = "teacher" if model == "resnet18" else "naive"
    return Job(variant, model, seed, request.width, family=family, settings=suffixes.get(suffix, {}))


def jobs(request: Request) -> list[Job]:
    """One seed of everything, the telling variants first; then further seeds in the same order."""
    order = (*TELLING, *SETTLING, *FURTHER)
    return [job(variant, seed, request) for seed in range(request.seeds) for variant in order]


def show(request: Request, records: Sequence[Record]) -> Findings:
    columns = (
        Column("about", "variant"),
        Column("paper_top1", "paper top-1 (ImageNet)", ".1f"),
        Column("paper_top5", "paper top-5", ".1f"),
        Column("top1", f"ours top-1 ({request.data})", ".2f"),
        Column("spread", "± over seeds", ".2f"),
        Column("top5", "ours top-5", ".2f"),
        Column("seeds", "seeds"),
        Column("note", ""),
    )
    rows = []
    for variant in VARIANTS:
        done = [record for record in records if record["variant"] == variant.name]
        top1, top5 = (values(done, variant.name, score) for score in ("top1", "top5"))
        rows.append(
            {
                "variant": variant.name,
                "about": variant.about,
                "paper_top1": variant.top1,
                "paper_top5": variant.top5,
                "top1": fmean(top1) if top1 else None,
                "spread": spread(top1),
                "top5": fmean(top5) if top5 else None,
                "seeds": len(top1),
                "note": _note(variant, done),
            }
        )
    _draw(request, records)
    ours = f"{request.data}, width {request.width}, {counted(request.epochs, 'epoch')}"
    caption = f"The ablation: paper on ImageNet, ours on {ours}"
    picture = Picture("table3.png", "What the modules add: paper (hollow) and ours (each seed a dot)")
    tables = [Table("ablation", caption, columns, rows), judge(CLAIMS, records, "section 4.1, table 3")]
    return Findings(tables, [picture])


def _note(variant: Variant, done: Sequence[Record]) -> str:
    if not done:
        return "not run yet"
    diverged = [f"diverged: {record['divergence']}" for record in done if record["divergence"]]
    return diverged[0] if diverged else NOTES.get(variant.name, "")


def _draw(request: Request, records: Sequence[Record]) -> None:
    """As differences: the two data sets have no common scale, what a module adds to them has."""
    plain, ours = values(records, PLAIN.name), {one.name: values(records, one.name) for one in VARIANTS}
    drawn = [one for one in reversed(VARIANTS) if one.top1 is not None or (plain and ours[one.name])]
    with canvas(request.out / "table3.png", size=(6.8, 0.36 * len(drawn) + 0.6)) as axes:
        axes.plot([], [], "o", mfc="none", color="C1", label="paper, ImageNet")
        if plain:
            axes.plot([], [], "o", color="C0", label=f"ours, {request.data}")
        elif any(ours.values()):
            axes.plot([], [], " ", label="ours: no run without modules yet")
        for line, variant in enumerate(drawn):
            if variant.top1 is not None and PLAIN.top1 is not None:
                axes.plot(variant.top1 - PLAIN.top1, line, "o", mfc="none", color="C1")
            gains = [top1 - fmean(plain) for top1 in ours[variant.name]] if plain else []
            axes.plot(gains, [line] * len(gains), "o", color="C0")
            if any(record["divergence"] for record in records if record["variant"] == variant.name):
                axes.text(0.02, line, "diverged", color="C3", va="center", transform=axes.get_yaxis_transform())
        axes.set_yticks(range(len(drawn)), [variant.about for variant in drawn])
        axes.set_ylim(-0.5, len(drawn) - 0.5)
        axes.set_xlabel("points of top-1 above no non-linear modules")
        axes.axvline(0, color="0.6", lw=1)
        axes.grid(alpha=0.3)
        place = {"loc": "lower center", "bbox_to_anchor": (0.5, 1)}
        axes.legend(**place, ncols=2 if plain else 1, frameon=False, fontsize="small")
