"""The shop in the admin: to look at."""

from __future__ import annotations

from django.contrib import admin

from testproject.shop.models import Digest, LedgerEntry, Order, Reservation, Stock
from ultimate_jobs.admin import JobsFor


@admin.register(Order)
class OrderAdmin(JobsFor, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ["reference", "amount", "sku", "state", "nudges", "created_at"]
    list_filter = ["state"]
    search_fields = ["reference"]


admin.site.register(Stock, list_display=["sku", "received", "left"])
admin.site.register(
    Reservation,
    list_display=["order", "shelf"],
    list_select_related=["order", "shelf"],
    search_fields=["order__reference"],
)
admin.site.register(
    LedgerEntry,
    list_display=["key", "amount", "job_id", "attempt", "repeats", "booked_at"],
    search_fields=["reference"],
)
admin.site.register(Digest, list_display=["day", "orders", "amount"])
