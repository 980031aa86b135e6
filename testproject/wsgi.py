"""The WSGI entry point. It serves the admin's static files too: there is no web server in front."""

from __future__ import annotations

import os

from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.wsgi import get_wsgi_application

from testproject import postgres

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
postgres.serve()

application = StaticFilesHandler(get_wsgi_application())
