"""Settings of the project that is measured: Django's defaults, one database, our own defaults.

``BENCHMARK_DATABASE`` and ``BENCHMARK_HOST`` say where the database is; ``BENCHMARK_PREPARED``
allows prepared statements on its connections, ``BENCHMARK_DEBUG`` turns on debugging.
"""

from __future__ import annotations

import os

SECRET_KEY = "benchmarks have no secrets"  # noqa: S105 - it says so
DEBUG = "BENCHMARK_DEBUG" in os.environ
USE_TZ = True
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": os.environ["BENCHMARK_HOST"],
        "USER": "postgres",
        "NAME": os.environ["BENCHMARK_DATABASE"],
        "CONN_MAX_AGE": None,
        "OPTIONS": {"prepare_threshold": 5} if "BENCHMARK_PREPARED" in os.environ else {},
    }
}
INSTALLED_APPS = ["django.contrib.contenttypes", "ultimate_jobs", "benchmarks.ours"]
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"console": {"class": "logging.StreamHandler"}},
    "root": {"handlers": ["console"], "level": "WARNING"},
    "loggers": {"ultimate_jobs": {"level": "INFO"}},
}
