"""The child that enqueues ours: ``python -m benchmarks.ours.agent``."""

from __future__ import annotations

import django

from benchmarks.agent import serve

if __name__ == "__main__":
    django.setup()
    from benchmarks.ours.producer import Producer

    serve(Producer())
