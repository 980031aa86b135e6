#!/usr/bin/env python
"""Django's commands against the test project."""

from __future__ import annotations

import os
import sys

from django.core.management import execute_from_command_line

from testproject import postgres


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
    postgres.serve()
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
