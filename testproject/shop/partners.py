"""The shop's partners over HTTP: a payment gateway and a carrier.

Each call names itself with a key, so that it can be made again when nobody knows how it ended.
"""

from __future__ import annotations

import http.client
import json
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

ANSWER_SECONDS = 5


class PartnerUnavailable(Exception):
    """A partner is busy, or nobody knows what it did: worth another try."""


class PartnerRefused(Exception):
    """A partner refuses for good, as the code says."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code = code


def charge(reference: str, amount: Decimal, card: str, *, key: str) -> str:
    """Charge a card once and answer the charge's id."""
    body = {"reference": reference, "amount": f"{amount:.2f}", "card": card}
    return str(_ask("/charges", body, key)["id"])


def refund(reference: str, *, key: str) -> None:
    """Give back what was charged under the key, if anything was, and bar the key."""
    _ask("/refunds", {"reference": reference}, key)


def ship(reference: str, address: str, *, key: str) -> str:
    """Hand a parcel to the carrier once and answer the parcel's id."""
    return str(_ask("/shipments", {"reference": reference, "address": address}, key)["id"])


def recall(reference: str, *, key: str) -> None:
    """Call back what was shipped under the key, if anything was, and bar the key."""
    _ask("/recalls", {"reference": reference}, key)


def _ask(path: str, body: dict[str, str], key: str) -> dict[str, Any]:
    host = urlsplit(settings.SHOP_PARTNERS_URL).netloc
    line = http.client.HTTPConnection(host, timeout=ANSWER_SECONDS)
    try:
        line.request("POST", path, json.dumps(body), {"Idempotency-Key": key})
        response = line.getresponse()
        answer: dict[str, Any] = json.loads(response.read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise PartnerUnavailable(f"{host}{path} did not answer.") from error
    finally:
        line.close()
    if response.status >= 500:
        raise PartnerUnavailable(f"{host}{path} answered {response.status}.")
    if response.status >= 400:
        raise PartnerRefused(answer["code"], answer["error"])
    return answer
