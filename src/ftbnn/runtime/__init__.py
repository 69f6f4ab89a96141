"""Runs a .ftbnn file with NumPy and the native core: no PyTorch."""

from ftbnn._native import FormatError
from ftbnn.runtime.model import Guess, Model, OperatorTime, load

__all__ = ["FormatError", "Guess", "Model", "OperatorTime", "load"]
