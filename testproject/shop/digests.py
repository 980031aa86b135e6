"""What was ordered on a day, as the shop's own clock has days."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from django.db.models import Count, Sum

from testproject.shop.models import Digest, Order

ZONE = "Europe/Berlin"


def day_before(instant: datetime) -> date:
    """Answer the last day that is over at an instant."""
    return instant.astimezone(ZoneInfo(ZONE)).date() - timedelta(days=1)


def summarise(day: date) -> Digest:
    """Write the digest of a day; a second call brings it up to date."""
    start, end = _midnight(day), _midnight(day + timedelta(days=1))
    ordered = Order.objects.filter(created_at__gte=start, created_at__lt=end).aggregate(
        orders=Count("id"), amount=Sum("amount", default=Decimal(0))
    )
    digest, _ = Digest.objects.update_or_create(day=day, defaults=ordered)
    return digest


def _midnight(day: date) -> datetime:
    """Answer the first instant of a day: days have 23 to 25 hours."""
    return datetime.combine(day, time.min, ZoneInfo(ZONE))
