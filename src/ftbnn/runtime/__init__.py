"""Runs a .ftbnn file with NumPy and the native core: no PyTorch."""

from ftbnn.runtime.model import Model, OperatorTime, load

__all__ = ["Model", "OperatorTime", "load"]
