"""Figures that tests cannot promise: ``python -m benchmarks schedule``.

Each module has a ``main`` that answers lines. It runs in a database that is made for it and removed.
"""
