"""Measurements, each a module of its own: ``python -m benchmarks.pickup``."""
