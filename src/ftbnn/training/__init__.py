"""Training: recipes, the loop, and runs that any interruption can be undone for."""

from ftbnn.training.fit import fit, with_settings
from ftbnn.training.recipe import Recipe
from ftbnn.training.recipes import RECIPES, Steps, find

__all__ = ["RECIPES", "Recipe", "Steps", "find", "fit", "with_settings"]
