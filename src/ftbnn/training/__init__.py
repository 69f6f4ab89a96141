"""Training: recipes, the loop, and runs that any interruption can be undone for."""

from ftbnn.training.fit import fit, with_settings
from ftbnn.training.options import Callback, Options
from ftbnn.training.recipe import Recipe
from ftbnn.training.recipes import RECIPES, Steps, find
from ftbnn.training.run import Run, load_run

__all__ = ["RECIPES", "Callback", "Options", "Recipe", "Run", "Steps", "find", "fit", "load_run", "with_settings"]
