"""What rows that are filled in by SQL have in common with those of ``enqueue``."""

from __future__ import annotations

from typing import Final

AN_ID: Final = """
       (lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0')
        || right(replace(gen_random_uuid()::text, '-', ''), 20))::uuid"""
"""SQL of a new id. It is in the order of time: random ones would touch every page of a large index."""
