"""Settings of the test project.

`DATABASE_URL` names a PostgreSQL server to use; without it the project has its own, which the entry
points start (see `testproject.postgres`). `DATABASE_NAME` chooses another database of either. Importing
this module starts nothing.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import dj_database_url
import django

from testproject.postgres import SERVER

BASE_DIR = Path(__file__).resolve().parent.parent

SECRET_KEY = "a test project has no secrets"
DEBUG = os.environ.get("DEBUG", "1") == "1"
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]", "testserver"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "ultimate_jobs",
    "testproject.shop",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "testproject.urls"
WSGI_APPLICATION = "testproject.wsgi.application"
ASGI_APPLICATION = "testproject.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

default = dj_database_url.parse(os.environ.get("DATABASE_URL") or SERVER.url)
if "DATABASE_NAME" in os.environ:
    default["NAME"] = os.environ["DATABASE_NAME"]
DATABASES = {"default": default | {"CONN_MAX_AGE": 60, "CONN_HEALTH_CHECKS": True}}

DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
STATIC_URL = "static/"

SHOP_PARTNERS_URL = os.environ.get("SHOP_PARTNERS_URL", "http://127.0.0.1:8900")
SHOP_NUDGE_AFTER = os.environ.get("SHOP_NUDGE_AFTER", "3d")

if find_spec("django_tasks") and django.VERSION < (6, 0):  # the backport of django.tasks
    INSTALLED_APPS.append("django_tasks")
if "django_tasks" in INSTALLED_APPS or django.VERSION >= (6, 0):
    TASKS = {"default": {"BACKEND": "ultimate_jobs.tasks.JobsBackend"}}

ULTIMATE_JOBS = {
    "VISIBILITY_TIMEOUT": os.environ.get("VISIBILITY_TIMEOUT", "30s"),
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"format": "{asctime} {levelname:<7} {name}: {message}", "style": "{"},
    },
    "handlers": {
        "console": {"class": "logging.StreamHandler", "formatter": "line"},
    },
    "root": {"handlers": ["console"], "level": os.environ.get("LOG_LEVEL", "INFO")},
}
