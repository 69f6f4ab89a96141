"""Runs a .ftbnn file with NumPy and the native core: no PyTorch."""

from ftbnn._native import FormatError
from ftbnn.runtime.model import Model, OperatorTime, load

__all__ = ["FormatError", "Model", "OperatorTime", "load"]
