"""Every error this package raises.

JobsError
├── DeclarationError            refused when the declaration is imported
│   ├── DeclarationInvalid          X_JOB_DECLARATION_INVALID
│   ├── IdempotencyRequired         X_IDEMPOTENCY_REQUIRED
│   ├── TenantRequired              X_JOB_TENANT_REQUIRED
│   ├── JobDuplicate                X_JOB_DUPLICATE
│   ├── ConfigInvalid               X_CONFIG_INVALID
│   ├── ErrorRetryInvalid           X_ERROR_RETRY_INVALID
│   ├── RateLimitInvalid            X_RATE_LIMIT_INVALID
│   ├── RateLimitScopeUnset         X_RATE_LIMIT_SCOPE_UNSET
│   ├── RateLimitNotShared          X_RATE_LIMIT_NOT_SHARED
│   ├── ConcurrencyUnenforceable    X_JOB_CONCURRENCY_UNENFORCEABLE
│   └── TasksFrameworkMissing       X_TASKS_FRAMEWORK_MISSING
├── RefusedError                refused to the caller, before anything is written
│   ├── InvariantError              X_INVARIANT
│   ├── IdInvalid                   X_ID_INVALID
│   ├── InputInvalid                X_JOB_INPUT_INVALID
│   ├── InputTooLarge               X_JOB_INPUT_TOO_LARGE
│   ├── LiveKeyTaken                X_JOB_DUPLICATE
│   ├── EnqueueBatchTooLarge        X_JOB_ENQUEUE_BATCH_TOO_LARGE
│   ├── TenantMismatch              X_JOB_TENANT_MISMATCH
│   ├── OutboxNoTransaction         X_OUTBOX_NO_TX
│   ├── OutboxWrongDatabase         X_OUTBOX_WRONG_DATABASE
│   ├── ClaimQueuesEmpty            X_JOB_CLAIM_QUEUES_EMPTY
│   ├── JobUnknown                  X_JOB_UNKNOWN
│   ├── TaskUnknown                 X_TASK_UNKNOWN
│   ├── JobNotCancellable           X_JOB_NOT_CANCELLABLE
│   ├── JobNotRequeueable           X_JOB_NOT_REQUEUEABLE
│   ├── JobNotPromotable            X_JOB_NOT_PROMOTABLE
│   ├── JobNotRemovable             X_JOB_NOT_REMOVABLE
│   ├── JobNameUnknown              X_JOB_NAME_UNKNOWN
│   ├── SelectionInvalid            X_JOB_SELECTION_INVALID
│   ├── NotConfirmed                X_NOT_CONFIRMED
│   ├── UsageInvalid                X_USAGE
│   ├── ChecksFailed                X_CHECKS_FAILED
│   ├── StepNotResolvable           X_STEP_NOT_RESOLVABLE
│   ├── EventNotPublishable         X_JOB_EVENT_REFUSED
│   ├── PageInvalid                 X_JOB_PAGE_INVALID
│   ├── ActorOrgRequired            X_TENANCY_ACTOR_ORG_REQUIRED
│   └── CrossTenantDenied           X_TENANCY_CROSS_DENIED
├── ResultError                 why a result was not answered
│   ├── JobFailed                   X_JOB_FAILED
│   ├── JobCancelled                X_JOB_CANCELLED
│   ├── ResultTimeout               X_RESULT_TIMEOUT
│   ├── ResultGone                  X_RESULT_GONE
│   └── ResultNotCommitted          X_RESULT_NOT_COMMITTED
├── RunError                    how an attempt can end
│   ├── Aborted                     X_ABORTED
│   ├── Draining                    X_DRAINING
│   ├── JobTimeout                  X_JOB_TIMEOUT
│   ├── LeaseLost                   X_JOB_LEASE_LOST
│   ├── SlotLost                    X_JOB_SLOT_LOST
│   ├── KeyBusy                     X_JOB_KEY_BUSY
│   ├── RateLimited                 X_RATE_LIMITED
│   ├── ResultUnserializable        X_JOB_RESULT_UNSERIALIZABLE
│   ├── StepDuplicate               X_STEP_DUPLICATE
│   ├── StepFailed                  X_STEP_FAILED
│   ├── StepInTransaction           X_STEP_IN_TRANSACTION
│   ├── StepNested                  X_STEP_NESTED
│   ├── StepOutputUnserializable    X_STEP_OUTPUT_UNSERIALIZABLE
│   ├── StepOutcomeUnknown          X_STEP_OUTCOME_UNKNOWN
│   ├── EventInvalid                X_JOB_EVENT_INVALID
│   ├── CompensationFailed          X_JOB_COMPENSATION_FAILED
│   └── OnSettledFailed             X_JOB_ON_SETTLED_FAILED
├── SchedulerError              what a scheduler logs and goes on from
│   ├── TaskFireFailed              X_TASK_FIRE_FAILED
│   ├── TaskWatermarkAhead          X_TASK_WATERMARK_AHEAD
│   └── SchedulerFailed             X_SCHEDULER_FAILED
├── ProofError                  what a tool for tests found
│   ├── JobsNeverIdle               X_JOBS_NEVER_IDLE
│   ├── RunFailed                   X_JOB_RUN_FAILED
│   ├── CrashDiverged               X_JOB_CRASH_DIVERGED
│   └── SimulationFailed            X_JOB_SIMULATION_FAILED
└── StorageError                what the database answered
    ├── DriverUnavailable           X_DRIVER_UNAVAILABLE
    ├── DriverLacks                 X_DRIVER_LACKS
    ├── RateLimitStoreUnavailable   X_RATE_LIMIT_STORE_UNAVAILABLE
    └── RowStatusUnknown            X_JOB_ROW_STATUS_UNKNOWN

Codes are the contract: compare ``error.code``, never the text. A text names what was wrong and
never repeats a refused value, a payload or a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

RetryClass = Literal["terminal", "retryable", "retry-after"]


class JobsError(Exception):
    """The root of the tree.

    ``code`` names the kind of error, ``cause`` what happened, ``fix`` what to run or to change,
    ``meta`` carries details for programs. ``retry`` says what the error means when a body ends
    with it: ``terminal`` (never again), ``retryable``, ``retry-after`` (``meta`` holds
    ``retry_after_seconds``) or ``None`` (the attempt count decides).
    """

    code: ClassVar[str] = "X_JOBS"
    retry: ClassVar[RetryClass | None] = None
    advice: ClassVar[str] = "Read the cause; it names what to change."

    def __init__(
        self, cause: str, *, fix: str | None = None, meta: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(cause)
        self.cause = cause
        self.fix = fix or self.advice
        self.meta: dict[str, object] = dict(meta or {})

    def __str__(self) -> str:
        return f"{self.code}: {self.cause} Fix: {self.fix}"

    @property
    def docs(self) -> str:
        """Where this code is explained."""
        return f"docs/errors.md#{self.code.lower()}"


class DeclarationError(JobsError):
    """A declaration or a setting that cannot work."""


class DeclarationInvalid(DeclarationError):
    """A field of a declaration is missing or has a value that cannot be meant."""

    code = "X_JOB_DECLARATION_INVALID"
    retry = "terminal"
    advice = "Correct the declaration named in the message."


class IdempotencyRequired(DeclarationError):
    """A job without ``idempotency_key``: there is no default, since only the app knows the key."""

    code = "X_IDEMPOTENCY_REQUIRED"
    advice = "Declare idempotency_key=lambda i: ... from the input alone."


class TenantRequired(DeclarationError):
    """A job without ``tenant``."""

    code = "X_JOB_TENANT_REQUIRED"
    advice = "Declare tenant=lambda i: ... or tenant=NO_TENANT."


class JobDuplicate(DeclarationError):
    """Two jobs under one name, or one job under two."""

    code = "X_JOB_DUPLICATE"
    advice = "Give one of the two another name with @job(name=...)."


class ConfigInvalid(DeclarationError):
    """A setting in ``ULTIMATE_JOBS`` that cannot work."""

    code = "X_CONFIG_INVALID"
    advice = "Correct ULTIMATE_JOBS in the settings; manage.py check lists every mistake."


class ErrorRetryInvalid(DeclarationError):
    """Two classifications of one error, or one of the package's own."""

    code = "X_ERROR_RETRY_INVALID"
    advice = "Register each code once, and none of the package's own."


class RateLimitInvalid(DeclarationError):
    """A rate limit's name, numbers or cost that cannot be meant."""

    code = "X_RATE_LIMIT_INVALID"
    retry = "terminal"
    advice = 'Declare RateLimit("name", limit=100, window="1m", scope="shared").'


class RateLimitScopeUnset(DeclarationError):
    """A rate limit that does not say whom it limits: there is no default, since it decides much."""

    code = "X_RATE_LIMIT_SCOPE_UNSET"
    advice = 'Declare scope="shared" for the whole fleet, or scope="process" for each process.'


class RateLimitNotShared(DeclarationError):
    """A shared rate limit over a driver whose buckets every process has for itself, or not at all."""

    code = "X_RATE_LIMIT_NOT_SHARED"
    advice = 'Use a driver that stores buckets, or declare scope="process".'


class ConcurrencyUnenforceable(DeclarationError):
    """Jobs declare a concurrency cap and the driver in use has no lease store to hold it."""

    code = "X_JOB_CONCURRENCY_UNENFORCEABLE"
    advice = "Remove concurrency= from the jobs named, or use a driver with a lease store."


class TasksFrameworkMissing(DeclarationError):
    """There is no ``django.tasks`` in this version of Django, and no backport of it either."""

    code = "X_TASKS_FRAMEWORK_MISSING"
    advice = (
        "Install the backport with 'pip install django-tasks' and add 'django_tasks' to "
        "INSTALLED_APPS, or use Django 6.0 or later."
    )


class RefusedError(JobsError):
    """A call that was refused before anything was written."""


class InvariantError(RefusedError):
    """A value that no call may have."""

    code = "X_INVARIANT"
    advice = "Correct the value named in the message."


class IdInvalid(RefusedError):
    """An id that is not a lowercase UUID."""

    code = "X_ID_INVALID"
    advice = "Pass a lowercase UUID, for example str(uuid.uuid4())."


class InputInvalid(RefusedError):
    """An input that does not fit the declared type, or has no stored form."""

    code = "X_JOB_INPUT_INVALID"
    retry = "terminal"
    advice = "Pass a value of the job's declared input type, made of storable values."


class InputTooLarge(RefusedError):
    """An input whose stored form is larger than ``MAX_INPUT_BYTES``."""

    code = "X_JOB_INPUT_TOO_LARGE"
    retry = "terminal"
    advice = "Store the data in a table and pass its id, or raise ULTIMATE_JOBS['MAX_INPUT_BYTES']."


class LiveKeyTaken(RefusedError):
    """``on_conflict="error"`` met a live job with the same key."""

    code = "X_JOB_DUPLICATE"
    advice = "Wait for the job named to end, or enqueue with on_conflict='dedupe'."


class EnqueueBatchTooLarge(RefusedError):
    """More inputs than one call may carry."""

    code = "X_JOB_ENQUEUE_BATCH_TOO_LARGE"
    advice = "Call enqueue_many with at most 10,000 inputs at a time."


class TenantMismatch(RefusedError):
    """The input names one tenant, the enqueue or the row another."""

    code = "X_JOB_TENANT_MISMATCH"
    retry = "terminal"
    advice = "Enqueue as the tenant that the input names."


class OutboxNoTransaction(RefusedError):
    """An enqueue outside a transaction where ``OUTBOX`` is ``"required"``."""

    code = "X_OUTBOX_NO_TX"
    advice = "Wrap the enqueue in transaction.atomic(), or pass outbox=False."


class OutboxWrongDatabase(RefusedError):
    """An enqueue inside a transaction of a database that does not hold the outbox."""

    code = "X_OUTBOX_WRONG_DATABASE"
    advice = (
        "Open transaction.atomic(using=...) on ULTIMATE_JOBS['DATABASE'], or pass outbox=False "
        "to publish at once."
    )


class ClaimQueuesEmpty(RefusedError):
    """A claim that names no queue."""

    code = "X_JOB_CLAIM_QUEUES_EMPTY"
    advice = "Name at least one queue, for example --queues default."


class JobUnknown(RefusedError):
    """No job and no staged row has this id."""

    code = "X_JOB_UNKNOWN"
    advice = "List the jobs with: manage.py jobs list"


class TaskUnknown(RefusedError):
    """No task has this name here."""

    code = "X_TASK_UNKNOWN"
    advice = "List the tasks with: manage.py jobs tasks list"


class JobNotCancellable(RefusedError):
    """The job has ended, or there is none."""

    code = "X_JOB_NOT_CANCELLABLE"
    advice = "Look at the job with: manage.py jobs show ID"


class JobNotRequeueable(RefusedError):
    """The job is live: it will run without being asked."""

    code = "X_JOB_NOT_REQUEUEABLE"
    advice = "Wait for the job to end, or cancel it first: manage.py jobs cancel ID"


class JobNotPromotable(RefusedError):
    """The job does not wait for its time: it is due, suspended, running or ended."""

    code = "X_JOB_NOT_PROMOTABLE"
    advice = "Look at the job with: manage.py jobs show ID"


class JobNotRemovable(RefusedError):
    """The job is running."""

    code = "X_JOB_NOT_REMOVABLE"
    advice = "Wait for the job to end, or cancel it first: manage.py jobs cancel ID"


class JobNameUnknown(RefusedError):
    """No job is declared under this name."""

    code = "X_JOB_NAME_UNKNOWN"
    advice = "List the declared jobs with: manage.py jobs describe"


class SelectionInvalid(RefusedError):
    """A bulk verb without a condition, or with a state that it cannot act on."""

    code = "X_JOB_SELECTION_INVALID"
    advice = "Name the jobs by --state, --queue, --name or another filter, or say --all."


class NotConfirmed(RefusedError):
    """A bulk verb that nobody confirmed: there is no terminal to ask at, or the answer was no."""

    code = "X_NOT_CONFIRMED"
    advice = "Look first with --dry-run, then run the same command with --yes."


class UsageInvalid(RefusedError):
    """A command line that cannot be meant."""

    code = "X_USAGE"
    advice = "Read what the command takes with: manage.py jobs --help"


class ChecksFailed(RefusedError):
    """The system checks of this package found an error, and the command did not start."""

    code = "X_CHECKS_FAILED"
    advice = "Correct what this lists: manage.py check --tag ultimate_jobs"


class StepNotResolvable(RefusedError):
    """No step of this name is in doubt, or the job is running."""

    code = "X_STEP_NOT_RESOLVABLE"
    advice = "List the job's steps with: manage.py jobs show ID"


class EventNotPublishable(RefusedError):
    """An event whose name or payload cannot be stored."""

    code = "X_JOB_EVENT_REFUSED"
    advice = "Publish a named event with a payload that has a JSON form."


class PageInvalid(RefusedError):
    """A page that is too large, or a cursor that no page gave out."""

    code = "X_JOB_PAGE_INVALID"
    advice = "Ask for at most 200 rows, with the id of a listed job as cursor."


class ActorOrgRequired(RefusedError):
    """A tenant is needed and the actor at work has none."""

    code = "X_TENANCY_ACTOR_ORG_REQUIRED"
    advice = "Declare tenant= on the job, or run inside acting_as(Actor(org=...))."


class CrossTenantDenied(RefusedError):
    """``cross_tenant`` by an actor without the capability ``tenancy:cross``."""

    code = "X_TENANCY_CROSS_DENIED"
    advice = "Give the actor the capability 'tenancy:cross', or stay in its own tenant."


class ResultError(JobsError):
    """Why a result was not answered."""


class JobFailed(ResultError):
    """The job failed for good; ``meta`` holds its state and the record of its last error."""

    code = "X_JOB_FAILED"
    advice = "Look at it with: manage.py jobs show ID"


class JobCancelled(ResultError):
    """The job was cancelled; it has no result."""

    code = "X_JOB_CANCELLED"
    advice = "Ask who cancelled it; run it again with: manage.py jobs retry ID"


class ResultTimeout(ResultError):
    """The job has not ended in time. It goes on."""

    code = "X_RESULT_TIMEOUT"
    advice = "Wait again, wait for longer, or look whether a worker serves its queue: manage.py jobs stats"


class ResultGone(ResultError):
    """There is no such job any more: purged, removed, or its enqueue was rolled back."""

    code = "X_RESULT_GONE"
    advice = (
        "Ask within DONE_RETENTION and DEAD_RETENTION, or let the job write its result to a table."
    )


class ResultNotCommitted(ResultError):
    """The enqueue is part of the open transaction, so nobody can run the job yet."""

    code = "X_RESULT_NOT_COMMITTED"
    advice = "Wait after the commit, or enqueue with outbox=False; in a test, run the jobs first."


class RunError(JobsError):
    """A reason for an attempt to end."""


class Aborted(RunError):
    """The attempt was cancelled and tried to go on."""

    code = "X_ABORTED"
    advice = "Stop when run.signal is aborted; use run_to_completion() for work that must land."


class Draining(RunError):
    """The worker was told to stop; the attempt is given back uncounted."""

    code = "X_DRAINING"
    retry = "retryable"
    advice = "Nothing to do: another worker continues the job."


class JobTimeout(RunError):
    """A ceiling passed."""

    code = "X_JOB_TIMEOUT"
    retry = "retryable"
    advice = "Do less in one attempt, or raise the timeout= of the job."


class LeaseLost(RunError):
    """The claim on the row ended while its body ran."""

    code = "X_JOB_LEASE_LOST"
    advice = "Look for a stopped or overloaded worker; another one continues the job."


class SlotLost(RunError):
    """The slot of a capped run ran out, or was taken, while its body ran."""

    code = "X_JOB_SLOT_LOST"
    advice = "Look for a stopped or overloaded worker; the job is tried again."


class KeyBusy(RunError):
    """Other runs hold every slot of the key, and the job is declared not to wait."""

    code = "X_JOB_KEY_BUSY"
    advice = "Wait until the other run has ended, then run manage.py jobs retry ID."


class RateLimited(RunError):
    """A budget is spent; the run waits for ``retry_after_seconds``, uncounted."""

    code = "X_RATE_LIMITED"
    retry = "retry-after"
    advice = "Nothing to do: the run goes on when the budget allows."

    def __init__(self, retry_after_seconds: float, *, meta: Mapping[str, object] | None = None):
        seconds = min(max(float(retry_after_seconds), 1.0), 86_400.0)
        super().__init__(
            f"The budget is spent for {seconds:g} s.",
            meta={**(meta or {}), "retry_after_seconds": seconds},
        )


class ResultUnserializable(RunError):
    """A body returned a value that has no stored form."""

    code = "X_JOB_RESULT_UNSERIALIZABLE"
    retry = "terminal"
    advice = "Return values with a JSON form: text, finite numbers, lists, string-keyed mappings."


class StepDuplicate(RunError):
    """A second step under one name in one run: names are keys, not labels."""

    code = "X_STEP_DUPLICATE"
    retry = "terminal"
    advice = "Give every step of the body its own name, for example with the id it works on."


class StepInTransaction(RunError):
    """A step inside a transaction of the body: its record would live or die with that."""

    code = "X_STEP_IN_TRANSACTION"
    retry = "terminal"
    advice = "Use run.atomic(name, fn): its writes and the step's record commit together."


class StepNested(RunError):
    """A step called inside the function of another step."""

    code = "X_STEP_NESTED"
    retry = "terminal"
    advice = "Call steps one after the other in the body."


class StepOutputUnserializable(RunError):
    """A step returned a value that has no stored form."""

    code = "X_STEP_OUTPUT_UNSERIALIZABLE"
    retry = "terminal"
    advice = "Return values with a JSON form: text, finite numbers, lists, string-keyed mappings."


class StepFailed(RunError):
    """A step that had failed, met again by the replay of a run that unwinds."""

    code = "X_STEP_FAILED"
    retry = "terminal"
    advice = (
        "Catch it where you catch what the step raises, so that later steps are undone as well."
    )


class StepOutcomeUnknown(RunError):
    """An at-most-once step began in an earlier attempt, and nobody knows how it ended."""

    code = "X_STEP_OUTCOME_UNKNOWN"
    retry = "terminal"
    advice = (
        "Find out what happened, then run manage.py jobs resolve-step ID STEP --ran --output JSON "
        "or --not-ran, then manage.py jobs retry ID."
    )


class EventInvalid(RunError):
    """An event's payload does not fit the schema of the wait."""

    code = "X_JOB_EVENT_INVALID"
    retry = "terminal"
    advice = "Publish the event with the payload that schema= of the wait describes."


class CompensationFailed(RunError):
    """A compensation failed each time it was tried, or must not be tried."""

    code = "X_JOB_COMPENSATION_FAILED"
    retry = "terminal"
    advice = "Repair what the compensation needs, then run manage.py jobs retry ID to go on."


class OnSettledFailed(RunError):
    """The ending hook of a job failed each time it was tried."""

    code = "X_JOB_ON_SETTLED_FAILED"
    advice = "Repair the on_settled hook; the job's own ending stands."


class SchedulerError(JobsError):
    """Something a scheduler could not do; it goes on with everything else."""


class TaskFireFailed(SchedulerError):
    """What a task has due could not be built or queued; it is tried again."""

    code = "X_TASK_FIRE_FAILED"
    advice = (
        "Repair the enqueue= of the task; then its catch_up says what is fired of what it missed."
    )


class TaskWatermarkAhead(SchedulerError):
    """A task counts as fired up to an instant that has not come."""

    code = "X_TASK_WATERMARK_AHEAD"
    advice = (
        "Check the clock of the database server. To go on now, delete the task's row of "
        "x_scheduler_state and restart the schedulers."
    )


class SchedulerFailed(SchedulerError):
    """A round of the scheduler failed; it is tried again."""

    code = "X_SCHEDULER_FAILED"
    advice = "Look at the type of the error; run manage.py check --database default."


class ProofError(JobsError, AssertionError):
    """What a tool for tests found; test runners count it as a failure."""


class JobsNeverIdle(ProofError):
    """A drain went through all its rounds, and work still came due."""

    code = "X_JOBS_NEVER_IDLE"
    advice = "Look for a job that enqueues itself, or retries without a wait."


class RunFailed(ProofError):
    """A run failed without an exception of its body: its input, its tenant, its result."""

    code = "X_JOB_RUN_FAILED"
    advice = 'Correct the job; or pass failures="keep" and look at the trace.'


class CrashDiverged(ProofError):
    """A run that was killed did not do what the undisturbed one did."""

    code = "X_JOB_CRASH_DIVERGED"
    advice = (
        "Give an effect outside the database a key of its own, such as f'{run.job_id}:charge', or "
        "once=True; do an effect in the database inside run.atomic."
    )


class SimulationFailed(ProofError):
    """A simulated order of moves broke what must hold."""

    code = "X_JOB_SIMULATION_FAILED"
    advice = "Replay it as the message says, and look at what happened between the last two moves."


class StorageError(JobsError):
    """The database could not answer, or answered what this version does not know."""


class DriverUnavailable(StorageError):
    """The database that holds the jobs cannot be reached."""

    code = "X_DRIVER_UNAVAILABLE"
    retry = "retryable"
    advice = "Check the database named by ULTIMATE_JOBS['DATABASE']."


class DriverLacks(StorageError):
    """The driver in use does not have what was asked of it, and says so."""

    code = "X_DRIVER_LACKS"
    retry = "terminal"
    advice = "Use the PostgreSQL driver, or do without this part of the driver's contract."


class RateLimitStoreUnavailable(StorageError):
    """The store of the buckets did not answer: nothing was taken, and nothing is allowed."""

    code = "X_RATE_LIMIT_STORE_UNAVAILABLE"
    advice = "Check the database named by ULTIMATE_JOBS['DATABASE']."


class RowStatusUnknown(StorageError):
    """A stored state that this version does not know."""

    code = "X_JOB_ROW_STATUS_UNKNOWN"
    advice = "Upgrade this process to the version that wrote the row."
