"""The kit in a ``TestCase``."""

from __future__ import annotations

import sys

from django.test import SimpleTestCase, TestCase

from ultimate_jobs.testing.kit import JobsKit, jobs_kit


class JobsMixin(SimpleTestCase):
    """Gives every test of a ``TestCase`` or a ``TransactionTestCase`` the kit as ``self.jobs``."""

    jobs: JobsKit

    def setUp(self) -> None:
        """Put the kit in place."""
        super().setUp()
        module = sys.modules.get(type(self).__module__)
        self.jobs = self.enterContext(jobs_kit(test_file=getattr(module, "__file__", None)))


class JobsTestCase(JobsMixin, TestCase):
    """A ``TestCase`` whose jobs run inside its transaction."""
