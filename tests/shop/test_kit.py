"""The tests that the shop brings along."""

from __future__ import annotations

from testproject.shop.tests import CheckoutTest

__all__ = ["CheckoutTest"]
