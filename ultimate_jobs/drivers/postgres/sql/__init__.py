"""Every statement that moves a row: one file each, one constant each.

Parameters are named and cast. ``%(now)s`` is empty in production, where the database's clock
decides; a test passes an instant. A literal percent sign is written twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

_texts: dict[str, str] = {}


def _read(path: str) -> str:
    text = files(__name__).joinpath(path).read_text(encoding="utf-8")
    _texts[path.removesuffix(".sql")] = text
    return text


def by_name() -> Mapping[str, str]:
    """Answer the text of every statement by its file, such as ``queue/claim``."""
    return dict(sorted(_texts.items()))


CLAIM = _read("queue/claim.sql")
DISOWN = _read("queue/disown.sql")
ENQUEUE = _read("queue/enqueue.sql")
ENQUEUE_ONE = _read("queue/enqueue_one.sql")
FAREWELL = _read("queue/farewell.sql")
FIND = _read("queue/find.sql")
HEARTBEAT = _read("queue/heartbeat.sql")
PROGRESS = _read("queue/progress.sql")
SETTLE = _read("queue/settle.sql")
SETTLE_DONE = _read("queue/settle_done.sql")

SLOT_ACQUIRE = _read("slots/acquire.sql")
SLOT_ADMIT = _read("slots/admit.sql")
SLOT_STAND_BY = _read("slots/stand_by.sql")

OUTBOX_DUE = _read("outbox/due.sql")
OUTBOX_PENDING = _read("outbox/pending.sql")
OUTBOX_REFUSE = _read("outbox/refuse.sql")
OUTBOX_RELAY = _read("outbox/relay.sql")
OUTBOX_STAGED = _read("outbox/staged.sql")
OUTBOX_STAGE = _read("outbox/stage.sql")
OUTBOX_STAGE_ONE = _read("outbox/stage_one.sql")

BACKLOG = _read("operator/backlog.sql")
CANCEL = _read("operator/cancel.sql")
CANCEL_MANY = _read("operator/cancel_many.sql")
CHOOSE = _read("operator/choose.sql")
FLEET = _read("operator/fleet.sql")
PAUSE = _read("operator/pause.sql")
PROMOTE_MANY = _read("operator/promote_many.sql")
QUEUES = _read("operator/queues.sql")
DEMAND = _read("operator/demand.sql")
REMOVE_MANY = _read("operator/remove_many.sql")
REQUEUE = _read("operator/requeue.sql")
REQUEUE_MANY = _read("operator/requeue_many.sql")
RESUME = _read("operator/resume.sql")
STRANDED = _read("operator/stranded.sql")

STEP_LOAD = _read("steps/load.sql")
STEP_LOOK_AGAIN = _read("steps/look_again.sql")
STEP_PUT = _read("steps/put.sql")
STEP_RESOLVE = _read("steps/resolve.sql")
STEP_SETTLE_WAIT = _read("steps/settle_wait.sql")

WAKE_CHANNELS = _read("wake/channels.sql")
WAKE_PROBE = _read("wake/probe.sql")
WAKE_TELL = _read("wake/tell.sql")

SCHEDULE_FIRE = _read("schedule/fire.sql")
SCHEDULE_LEAD = _read("schedule/lead.sql")
SCHEDULE_RELEASE = _read("schedule/release.sql")
SCHEDULE_WATERMARKS = _read("schedule/watermarks.sql")

RETENTION_CLOCK = _read("retention/clock.sql")
RETENTION_COUNTERS = _read("retention/counters.sql")
RETENTION_EVENTS = _read("retention/events.sql")
RETENTION_FOLD = _read("retention/fold.sql")
RETENTION_JOBS = _read("retention/jobs.sql")
RETENTION_LEASES = _read("retention/leases.sql")
RETENTION_RECEIPTS = _read("retention/receipts.sql")

EVENT_ANNOUNCE = _read("events/announce.sql")
EVENT_PUBLISH = _read("events/publish.sql")
EVENT_PUBLISHING = _read("events/publishing.sql")

RATE_LIMIT_PURGE = _read("rate_limits/purge.sql")
RATE_LIMIT_TAKE = _read("rate_limits/take.sql")
