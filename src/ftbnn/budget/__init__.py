"""What a network costs: FLOPs, BOPs, parameters and bytes, counted from the module itself."""

from ftbnn.budget.count import (
    CONVENTIONS,
    PAPER,
    Budget,
    Convention,
    ImageTooSmall,
    LayerCount,
    UncountedWarning,
    convention,
    count,
)
from ftbnn.budget.design import BudgetTooLarge, Design, widest
from ftbnn.budget.report import summary

__all__ = [
    "CONVENTIONS",
    "PAPER",
    "Budget",
    "BudgetTooLarge",
    "Convention",
    "Design",
    "ImageTooSmall",
    "LayerCount",
    "UncountedWarning",
    "convention",
    "count",
    "summary",
    "widest",
]
