"""What PostgreSQL and psycopg can do with no framework: the limits that ours is held against."""

from __future__ import annotations

from typing import Final

VARIABLE: Final = "BENCHMARK_DSN"
"""Environment variable that says where the database is."""
