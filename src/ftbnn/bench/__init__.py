"""Measurements, side by side in one run."""
