"""Rules that are broken on purpose, one at a time, and the tests that must notice.

Each mutant is one edit of one file. `python -m tests.mutations` makes it in a copy of the project and
runs its tests there: when they pass, a rule is kept by nobody.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Mutant:
    """One broken rule.

    Attributes:
        breaks: the rule, as it reads when it is broken.
        file: the file that is edited, below `ultimate_jobs`.
        old: text that the file has exactly once.
        new: what stands there instead.
        tests: files or folders below `tests`, of which at least one test has to fail.

    """

    breaks: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


SQL = "drivers/postgres/sql"

FENCES = (
    Mutant(
        "an ending is written although its claim is gone",
        f"{SQL}/queue/settle.sql",
        "AND j.claim = g.claim\n",
        "AND TRUE\n",
        ("conformance/test_postgres.py", "postgres/test_claims_and_leases.py"),
    ),
    Mutant(
        "an ending is written for a claim of another worker",
        f"{SQL}/queue/settle.sql",
        "%(worker)s::text",
        "j.claimed_by || left(%(worker)s::text, 0)",
        ("conformance/test_postgres.py", "postgres/test_claims_and_leases.py"),
    ),
    Mutant(
        "a job is done although its claim is gone",
        f"{SQL}/queue/settle_done.sql",
        "AND j.claim = g.claim\n",
        "AND TRUE\n",
        ("conformance/test_postgres.py", "postgres/test_claims_and_leases.py"),
    ),
    Mutant(
        "a job is done whoever has claimed it",
        f"{SQL}/queue/settle_done.sql",
        "%(worker)s::text",
        "j.claimed_by || left(%(worker)s::text, 0)",
        ("conformance/test_postgres.py", "postgres/test_claims_and_leases.py"),
    ),
    Mutant(
        "a claim does not get a number of its own",
        f"{SQL}/queue/claim.sql",
        "claim = j.claim + 1,",
        "claim = j.claim,",
        ("conformance/test_postgres.py", "postgres/test_claim.py", "worker/test_leases.py"),
    ),
    Mutant(
        "a zombie stores a step",
        f"{SQL}/steps/put.sql",
        "AND j.claim = %(claim)s::int\n",
        "AND %(claim)s::int IS NOT NULL\n",
        ("postgres/test_step_store.py",),
    ),
    Mutant(
        "the claim may go while a step's transaction is open",
        f"{SQL}/steps/put.sql",
        "AND j.state = 'running'\n       FOR SHARE",
        "AND j.state = 'running'",
        ("steps/test_atomic.py",),
    ),
    Mutant(
        "a completed step changes",
        f"{SQL}/steps/put.sql",
        "WHERE s.status <> 'completed'\n   AND s.job_id",
        "WHERE s.job_id",
        ("postgres/test_step_store.py",),
    ),
    Mutant(
        "progress is written although the claim is gone",
        f"{SQL}/queue/progress.sql",
        "AND j.claim = g.claim\n",
        "",
        (
            "conformance/test_postgres.py",
            "worker/test_progress.py",
            "postgres/test_claims_and_leases.py",
        ),
    ),
    Mutant(
        "a fire is not fenced on its watermark",
        f"{SQL}/schedule/fire.sql",
        "WHERE s.watermark = g.seen\n       AND s.watermark < g.watermark",
        "WHERE s.watermark < g.watermark + interval '1 hour'",
        ("conformance/test_postgres.py", "scheduler/test_leadership.py"),
    ),
)

ATTEMPTS = (
    Mutant(
        "a start is not counted",
        f"{SQL}/queue/claim.sql",
        "attempt = j.attempt + 1,",
        "attempt = j.attempt,",
        ("conformance/test_postgres.py", "postgres/test_claim.py"),
    ),
    Mutant(
        "a job gets one start more than it has attempts",
        "core/settlement.py",
        "return attempt >= attempts",
        "return attempt > attempts",
        ("core/test_settlement.py",),
    ),
    Mutant(
        "a lapsed last attempt is started again",
        f"{SQL}/queue/claim.sql",
        "AND j.attempt < j.max_attempts",
        "AND j.attempt <= j.max_attempts",
        ("conformance/test_postgres.py", "postgres/test_claims_and_leases.py"),
    ),
    Mutant(
        "an attempt that was handed back is counted all the same",
        f"{SQL}/queue/settle.sql",
        "CASE WHEN g.counted THEN j.attempt ELSE greatest(j.attempt - 1, 0) END",
        "j.attempt",
        ("conformance/test_postgres.py", "postgres/test_claims_and_leases.py"),
    ),
    Mutant(
        "a drain does not give the attempt back",
        "core/settlement.py",
        "case Interrupted():\n            return Verdict(Settlement(state=_to(Verb.HAND_BACK), counted=False))",
        "case Interrupted():\n            return Verdict(Settlement(state=_to(Verb.HAND_BACK)))",
        ("core/test_settlement.py", "worker/test_drain.py"),
    ),
    Mutant(
        "a drain tells no body",
        "worker/loop.py",
        "            held.token.abort(reason)\n\n    def _close",
        "            del held\n\n    def _close",
        ("worker/test_drain.py",),
    ),
    Mutant(
        "a run that waited in a worker that leaves is not given back",
        "worker/loop.py",
        "self.stats.state = WorkerState.DRAINING\n        self._return(self._bodies.give_back())",
        "self.stats.state = WorkerState.DRAINING",
        ("worker/test_ahead.py",),
    ),
    Mutant(
        "a run that waited loses its place",
        f"{SQL}/queue/settle.sql",
        " AND NOT g.in_place",
        " AND (g.in_place OR TRUE)",
        ("conformance/test_postgres.py", "worker/test_ahead.py"),
    ),
    Mutant(
        "a run waits although a crash would cost it its last attempt",
        f"{SQL}/queue/claim.sql",
        "j.attempt = 0 AND j.max_attempts > 1 AND",
        "",
        ("conformance/test_postgres.py", "worker/test_ahead.py"),
    ),
    Mutant(
        "runs wait behind a long body",
        "worker/bodies.py",
        "            self._threads.staff(self._threads.waiting)\n",
        "            pass\n",
        ("worker/test_ahead.py",),
    ),
    Mutant(
        "the wait of a retry is not kept",
        f"{SQL}/queue/settle.sql",
        "coalesce(g.until, clock.now + g.wait) AS due",
        "coalesce(g.until, clock.now) AS due",
        (
            "conformance/test_postgres.py",
            "postgres/test_claims_and_leases.py",
            "worker/test_attempts.py",
        ),
    ),
    Mutant(
        "a terminal error is tried again",
        "core/settlement.py",
        'if failed.retry == "terminal":\n        return _stopped',
        'if failed.retry == "never":\n        return _stopped',
        ("core/test_settlement.py",),
    ),
    Mutant(
        "jobs that failed together come back together",
        "core/retry.py",
        "capped / 2 + capped / 2 * roll",
        "capped",
        ("core/test_retry.py",),
    ),
    Mutant(
        "a job that is done is counted twice",
        f"{SQL}/queue/settle_done.sql",
        "SET done = c.done + excluded.done,",
        "SET done = c.done + 2 * excluded.done,",
        ("conformance/test_postgres.py", "postgres/test_claims_and_leases.py"),
    ),
    Mutant(
        "an ending is counted twice",
        f"{SQL}/queue/settle.sql",
        "SET done = c.done + excluded.done,",
        "SET done = c.done + 2 * excluded.done,",
        ("conformance/test_postgres.py", "postgres/test_claims_and_leases.py"),
    ),
)

LEASES = (
    Mutant(
        "a sign of life does not renew the lease",
        f"{SQL}/queue/heartbeat.sql",
        "expires_at = excluded.expires_at\n",
        "expires_at = w.expires_at\n",
        ("conformance/test_postgres.py", "postgres/test_claims_and_leases.py"),
    ),
    Mutant(
        "a worker gives one sign of life and no other",
        "worker/lease.py",
        "while not self._ended.wait(self._every):\n                self._beat()",
        "self._ended.wait()",
        ("worker/test_leases.py", "worker/test_timeouts.py"),
    ),
    Mutant(
        "a worker that cannot renew trusts its claims for ever",
        "worker/lease.py",
        "self.renewed_at = began",
        'self.renewed_at = float("inf")',
        ("worker/test_leases.py",),
    ),
    Mutant(
        "a living worker's claims are taken when their time is up",
        f"{SQL}/queue/claim.sql",
        "AND w.expires_at > coalesce(%(now)s::timestamptz, statement_timestamp()))",
        "AND w.expires_at IS NULL)",
        ("conformance/test_postgres.py", "postgres/test_claims_and_leases.py"),
    ),
    Mutant(
        "a claim whose answer was lost is vouched for",
        f"{SQL}/queue/heartbeat.sql",
        "AND u.visible_at <= clock.now\n",
        "AND FALSE\n",
        ("conformance/test_postgres.py", "postgres/test_claims_and_leases.py"),
    ),
    Mutant(
        "a sign of life does not renew the slots",
        f"{SQL}/queue/heartbeat.sql",
        "UPDATE x_job_leases AS l\n       SET expires_at = clock.now + %(lease)s::interval",
        "UPDATE x_job_leases AS l\n       SET expires_at = l.expires_at",
        ("conformance/test_postgres.py", "postgres/test_slots.py"),
    ),
    Mutant(
        "a slot is taken from its holder",
        f"{SQL}/slots/acquire.sql",
        "WHERE l.expires_at <= (SELECT clock.now FROM clock)",
        "WHERE TRUE",
        ("conformance/test_postgres.py", "postgres/test_slots.py"),
    ),
    Mutant(
        "a late ending gives back the slot of a newer claim",
        f"{SQL}/queue/settle.sql",
        "AND l.job_id = g.id\n       AND l.claim = g.claim\n",
        "",
        ("conformance/test_postgres.py", "postgres/test_slots.py"),
    ),
)

QUEUE = (
    Mutant(
        "a claim waits for rows that others hold",
        f"{SQL}/queue/claim.sql",
        "LIMIT lanes.share\n                     FOR UPDATE SKIP LOCKED",
        "LIMIT lanes.share\n                     FOR UPDATE",
        ("conformance/test_postgres.py", "postgres/test_claim.py"),
    ),
    Mutant(
        "a claim takes what is not due",
        f"{SQL}/queue/claim.sql",
        "AND j.run_at <= coalesce(%(now)s::timestamptz, statement_timestamp())\n",
        "",
        ("conformance/test_postgres.py", "postgres/test_claim.py"),
    ),
    Mutant(
        "a paused queue is claimed from",
        f"{SQL}/queue/claim.sql",
        "p.kind = 'queue' AND p.name = q.queue",
        "p.kind = 'queue' AND p.name IS NULL",
        ("conformance/test_postgres.py", "postgres/test_claim.py"),
    ),
    Mutant(
        "urgent work waits in line",
        f"{SQL}/queue/claim.sql",
        "ORDER BY v.priority DESC) AS level",
        "ORDER BY v.priority) AS level",
        ("conformance/test_postgres.py", "postgres/test_claim.py"),
    ),
    Mutant(
        "an operator cancels what has ended",
        f"{SQL}/operator/cancel.sql",
        "   AND j.state IN ('delayed', 'ready', 'running', 'suspended')\n",
        "",
        ("cancel/test_operators.py",),
    ),
    Mutant(
        "an operator queues what runs once more",
        f"{SQL}/operator/requeue.sql",
        "AND j.state IN ('cancelled', 'dead', 'done', 'failed')\n",
        "",
        ("cancel/test_operators.py",),
    ),
)

OUTBOX = (
    Mutant(
        "an enqueue leaves the transaction it is made in",
        "enqueue/facade.py",
        "return driver.outbox.stage\n",
        "return driver.queue.enqueue_apart\n",
        ("enqueue/test_transactions.py",),
    ),
    Mutant(
        "a staged key ignores the job that holds it",
        f"{SQL}/outbox/stage_one.sql",
        "WHERE NOT EXISTS (SELECT FROM live)\n        ON CONFLICT",
        "WHERE TRUE\n        ON CONFLICT",
        ("enqueue/test_racing_keys.py",),
    ),
    Mutant(
        "a direct enqueue is not told of a staged key",
        f"{SQL}/outbox/stage_one.sql",
        "     CROSS JOIN announced\n",
        "",
        ("enqueue/test_racing_keys.py",),
    ),
    Mutant(
        "a direct enqueue does not ask who stages",
        f"{SQL}/queue/enqueue_one.sql",
        "NOT EXISTS (\n               SELECT FROM open_transactions AS others",
        "TRUE OR NOT EXISTS (\n               SELECT FROM open_transactions AS others",
        ("enqueue/test_racing_keys.py",),
    ),
    Mutant(
        "a direct batch does not ask who stages",
        f"{SQL}/queue/enqueue.sql",
        "WHERE nobody_stages.holds\n",
        "WHERE TRUE\n",
        ("enqueue/test_racing_keys.py",),
    ),
    Mutant(
        "the staged keys of a batch ignore the jobs that hold them",
        f"{SQL}/outbox/stage.sql",
        "WHERE NOT EXISTS (SELECT 1 FROM live AS l WHERE l.idempotency_key = g.idempotency_key)",
        "WHERE TRUE",
        ("enqueue/test_racing_keys.py",),
    ),
    Mutant(
        "a direct enqueue is not told of the staged keys of a batch",
        f"{SQL}/outbox/stage.sql",
        "     CROSS JOIN announced\n",
        "",
        ("enqueue/test_racing_keys.py",),
    ),
    Mutant(
        "a batch takes its keys in the order of its inputs",
        f"{SQL}/outbox/stage.sql",
        "     ORDER BY g.idempotency_key\n        ON CONFLICT",
        "        ON CONFLICT",
        ("enqueue/test_racing_keys.py",),
    ),
    Mutant(
        "a staged row is deleted whether it was published or not",
        f"{SQL}/outbox/relay.sql",
        "USING published AS p\n     WHERE o.id = p.id",
        "USING batch AS p\n     WHERE o.id = p.id",
        ("conformance/test_postgres.py", "enqueue/test_relay.py"),
    ),
    Mutant(
        "a relay waits for rows that another one holds",
        f"{SQL}/outbox/relay.sql",
        "FOR UPDATE SKIP LOCKED",
        "FOR UPDATE",
        ("conformance/test_postgres.py", "enqueue/test_relay.py"),
    ),
    Mutant(
        "a staged row is published again after its job has ended",
        f"{SQL}/outbox/relay.sql",
        "WHERE o.published_at IS NULL\n       AND (o.retry_at",
        "WHERE (o.published_at IS NULL OR TRUE)\n       AND (o.retry_at",
        ("conformance/test_postgres.py", "enqueue/test_relay.py"),
    ),
)

WAKE = (
    Mutant(
        "an enqueue tells nobody",
        f"{SQL}/queue/enqueue_one.sql",
        "WHEN i.state = 'ready'\n",
        "WHEN i.state = 'nobody'\n",
        ("wake/test_sessions.py",),
    ),
    Mutant(
        "a batch tells nobody",
        f"{SQL}/queue/enqueue.sql",
        "WHERE EXISTS (SELECT 1 FROM inserted AS i WHERE i.state = 'ready')",
        "WHERE FALSE",
        ("postgres/test_wake.py",),
    ),
    Mutant(
        "a stage tells no relay",
        f"{SQL}/outbox/stage_one.sql",
        "WHEN NOT EXISTS (\n            SELECT FROM (SELECT o.retry_at",
        "WHEN FALSE AND NOT EXISTS (\n            SELECT FROM (SELECT o.retry_at",
        ("postgres/test_wake.py",),
    ),
    Mutant(
        "a stage of a batch tells no relay",
        f"{SQL}/outbox/stage.sql",
        "WHERE EXISTS (SELECT 1 FROM inserted)",
        "WHERE FALSE",
        ("postgres/test_wake.py",),
    ),
    Mutant(
        "a relay tells no worker",
        f"{SQL}/outbox/relay.sql",
        "FROM published AS p WHERE p.state = 'ready') AS due",
        "FROM published AS p WHERE FALSE) AS due",
        ("conformance/test_postgres.py", "wake", "postgres/test_wake.py"),
    ),
    Mutant(
        "a lost session is trusted",
        "process/idle.py",
        "self._ceiling = self._trusted if live else self._untrusted",
        "self._ceiling = self._trusted",
        ("wake/test_budget.py", "process"),
    ),
)

STEPS = (
    Mutant(
        "a stored step is called again",
        "core/replay.py",
        "return Replay(record.output)",
        "return Go(record.attempts)",
        ("steps/test_replay.py",),
    ),
    Mutant(
        "an at-most-once step is called again",
        "core/replay.py",
        "return Unknown() if once else Go(record.attempts)",
        "return Go(record.attempts)",
        ("steps/test_once.py",),
    ),
    Mutant(
        "an at-most-once step begins without a trace",
        "steps/runner.py",
        "            self.put(self._write(opened, StepStatus.STARTED))\n",
        "",
        ("steps/test_once.py",),
    ),
    Mutant(
        "one name stands for two steps",
        "steps/runner.py",
        "if name in self._seen:",
        "if name in ():",
        ("steps/test_names.py",),
    ),
    Mutant(
        "a sleep is over before its time",
        f"{SQL}/steps/load.sql",
        "AND s.wake_at <= clock.now\n",
        "",
        ("steps/test_sleeps.py",),
    ),
    Mutant(
        "the latest event wins",
        f"{SQL}/steps/settle_wait.sql",
        "ORDER BY e.published_at, e.id",
        "ORDER BY e.published_at DESC, e.id DESC",
        ("steps/test_events.py",),
    ),
    Mutant(
        "an event of before the wait ends it",
        f"{SQL}/steps/settle_wait.sql",
        "AND (NOT pg_visible_in_snapshot",
        "AND (TRUE OR NOT pg_visible_in_snapshot",
        ("steps/test_events.py", "steps/test_event_races.py"),
    ),
    Mutant(
        "an event that crosses the suspension is not looked for",
        "worker/loop.py",
        "settlement.poll is not None:",
        "settlement.poll is None:",
        ("steps/test_event_races.py",),
    ),
    Mutant(
        "an event that meets a late second look is not told",
        f"{SQL}/events/publish.sql",
        "     WHERE j.id = w.id\n    RETURNING j.id, j.queue",
        "     WHERE j.id = w.id AND j.run_at > clock.now\n    RETURNING j.id, j.queue",
        ("steps/test_second_look.py",),
    ),
    Mutant(
        "a second look puts off what a publish has found due",
        f"{SQL}/events/publish.sql",
        "SET run_at = least(clock.now, w.run_at - interval '1 microsecond')",
        "SET run_at = least(clock.now, w.run_at)",
        ("steps/test_second_look.py",),
    ),
    Mutant(
        "nobody asks who publishes",
        "drivers/postgres/steps.py",
        '"publishing": publishing,',
        '"publishing": False,',
        ("steps/test_event_races.py",),
    ),
)

SAGAS = (
    Mutant(
        "the first step is undone first",
        "steps/unwind.py",
        "in reversed(steps.compensations)",
        "in list(steps.compensations)",
        ("sagas",),
    ),
    Mutant(
        "a compensation that is stored is called again",
        "steps/unwind.py",
        "record.status is StepStatus.COMPLETED",
        "record.status is StepStatus.STARTED",
        ("sagas",),
    ),
    Mutant(
        "what was done after a failure that the body caught is not undone",
        "steps/runner.py",
        "if self._unwinding and record is not None and record.status is StepStatus.FAILED:",
        "if False and record is not None:",
        ("simulation/test_programs.py", "sagas/test_unwind.py"),
    ),
    Mutant(
        "an unwind leaves no trace before its first compensation",
        "steps/unwind.py",
        "        steps.completed(steps.open_internal(UNWINDING), _dump(original))\n",
        "        pass\n",
        ("sagas",),
    ),
    Mutant(
        "a drain is a failure",
        "worker/execute.py",
        "case Draining():\n            return Interrupted()",
        "case Draining():\n            return failed(error)",
        ("worker/test_drain.py",),
    ),
)

LIMITS = (
    Mutant(
        "a take is not counted",
        f"{SQL}/rate_limits/take.sql",
        "SELECT held.tokens - verdict.spent,",
        "SELECT held.tokens,",
        ("limits/test_rate_limit.py",),
    ),
    Mutant(
        "a refused take uses up an attempt",
        "core/settlement.py",
        "waits = Settlement(state=_to(Verb.HAND_BACK), counted=False,",
        "waits = Settlement(state=_to(Verb.HAND_BACK),",
        ("core/test_settlement.py", "limits/test_in_a_worker.py"),
    ),
    Mutant(
        "one run more than the cap may start",
        f"{SQL}/slots/acquire.sql",
        "WHERE open_slots.turn <= w.cap - taken.slots",
        "WHERE open_slots.turn <= w.cap - taken.slots + 1",
        ("conformance/test_postgres.py", "postgres/test_slots.py"),
    ),
)

BODIES = (
    Mutant(
        "a cancelled body may go on writing",
        "process/cancel.py",
        "    if token is not None:\n        token.raise_if_aborted()\n",
        "    del token\n",
        ("cancel/test_a_cancelled_body.py",),
    ),
    Mutant(
        "a row of one tenant runs for another",
        "worker/execute.py",
        "if org is not None and self._job.tenant_id not in (None, org):",
        "if org is None and self._job.tenant_id not in (None, org):",
        ("worker/test_tenants.py",),
    ),
    Mutant(
        "a hook is told of an ending that was not written",
        "worker/loop.py",
        "        if fate is not Fate.WRITTEN:\n            return\n",
        "",
        ("worker/test_hooks.py",),
    ),
    Mutant(
        "every missed occurrence is fired",
        "core/catchup.py",
        'most = max_catch_up if catch_up == "run-all" else 1',
        "most = max_catch_up",
        ("core/test_catchup.py",),
    ),
)

MUTANTS: Final = (
    *FENCES,
    *ATTEMPTS,
    *LEASES,
    *QUEUE,
    *OUTBOX,
    *WAKE,
    *STEPS,
    *SAGAS,
    *LIMITS,
    *BODIES,
)
