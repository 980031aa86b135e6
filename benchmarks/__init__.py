"""Figures that tests cannot promise: ``make bench``, and of single parts ``python -m benchmarks claims``.

The suite reads from the top: ``suite`` runs ``scenarios`` over a ``Bench``, which has two ``sides``:
``ours``, a Django project, and ``raw``, the limit. What they do is done by children, which ``agent``
and ``processes`` start; ``ticks`` counts bodies. It ends in ``figures``, and ``report`` makes tables of them.
"""
