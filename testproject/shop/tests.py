"""How the shop tests its jobs: `manage.py test testproject`."""

from __future__ import annotations

from decimal import Decimal

from testproject.shop import orders
from testproject.shop.jobs import Delivered
from testproject.shop.models import Order, OrderState, Stock
from ultimate_jobs import Enqueued
from ultimate_jobs.testing import JobsTestCase, Stub


class CheckoutTest(JobsTestCase):
    charge: Stub
    refund: Stub
    ship: Stub

    def setUp(self) -> None:
        super().setUp()
        self.charge = self.jobs.stub("testproject.shop.partners.charge", "ch-1")
        self.refund = self.jobs.stub("testproject.shop.partners.refund")
        self.ship = self.jobs.stub("testproject.shop.partners.ship", "p-1")
        self.jobs.stub("testproject.shop.partners.recall")

    def place(self) -> Enqueued:
        return orders.place("a-1", Decimal("12.50"))[1]

    def state(self) -> str:
        return Order.objects.get(reference="a-1").state

    def test_an_order_is_delivered(self) -> None:
        checkout = self.jobs.trace(self.place())
        self.jobs.run_jobs()
        self.assertEqual(self.state(), OrderState.PAID)

        orders.deliver(Delivered("a-1", "A. Neighbour"))
        self.jobs.clock.advance("3d")
        self.jobs.run_jobs()

        self.assertEqual(checkout.state, "done")
        self.assertEqual(checkout.steps["nudge"].executions, 1)
        self.assertNotIn("delivery", checkout.steps)
        self.assertEqual((len(self.charge.calls), len(self.ship.calls)), (1, 1))

    def test_a_customer_is_nudged_once_and_the_wait_goes_on(self) -> None:
        checkout = self.jobs.trace(self.place())
        self.jobs.run_jobs()
        self.jobs.clock.advance("3d")
        self.jobs.run_jobs()
        self.assertEqual(Order.objects.get().nudges, 1)

        orders.deliver(Delivered("a-1", "A. Neighbour"))
        self.jobs.run_jobs()

        self.assertEqual(checkout.result["delivered"], True)

    def test_what_is_out_of_stock_is_paid_back(self) -> None:
        Stock.objects.create(sku="mug", left=0)
        checkout = self.jobs.trace(self.place())

        self.jobs.run_jobs(failures="keep")

        self.assertEqual((checkout.state, self.state()), ("dead", OrderState.CANCELLED))
        self.assertTrue(self.refund.calls)
        self.assertEqual(self.ship.calls, [])
