"""How large a reproduction is: one literal table of data sets, widths and epochs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Sizes of the runs. `toy` is figure 2's network, `derived` are table 4's, which may cost `budget_m` millions."""

    about: str
    data: str
    width: int
    epochs: int
    seeds: int
    toy_data: str
    toy_width: int
    toy_epochs: int
    toy_seeds: int
    derived_data: str
    image_size: int | None  # of that data, where it comes in several
    budget_m: float


SCALES = {
    "quick": Scale(
        "a trial on embedded data: its numbers say nothing",
        *("digits", 4, 1, 1),
        *("digits", 4, 2, 2),
        *("synthetic", 16, 0.3),
    ),
    "standard": Scale(
        "narrow networks, short training",
        *("cifar10", 16, 20, 3),
        *("mnist", 16, 10, 5),
        *("cifar10", None, 2.0),
    ),
    "full": Scale(
        "the paper's width and number of epochs, on small images",
        *("cifar10", 64, 60, 3),
        *("mnist", 16, 20, 5),
        *("cifar10", None, 20.0),
    ),
}
