"""A queue of typical width, and the fewest statements that keep it."""

from __future__ import annotations

from typing import Final

CREATE: Final = """
CREATE TABLE job (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue text NOT NULL DEFAULT 'default',
    name text NOT NULL,
    input jsonb NOT NULL,
    idempotency_key text,
    state smallint NOT NULL DEFAULT 0,  -- 0 ready, 1 running, 2 done
    priority smallint NOT NULL DEFAULT 0,
    attempt smallint NOT NULL DEFAULT 0,
    max_attempts smallint NOT NULL DEFAULT 3,
    run_at timestamptz NOT NULL DEFAULT now(),
    created_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    visible_at timestamptz,
    worker text,
    result jsonb,
    error text
);
CREATE INDEX job_claim ON job (queue, priority DESC, run_at, id) WHERE state = 0;
CREATE UNIQUE INDEX job_key ON job (idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX job_lease ON job (visible_at) WHERE state = 1;
CREATE TABLE step (
    job bigint NOT NULL,
    place smallint NOT NULL,
    name text NOT NULL,
    output jsonb,
    finished_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (job, place)
);
"""
CLEAR: Final = "TRUNCATE job, step"
INSERT: Final = """
WITH new AS (INSERT INTO job (name, input) VALUES ('noop', %s::jsonb) RETURNING id)
SELECT id, pg_notify('job', 'default') FROM new
"""
INSERT_MANY: Final = """
WITH new AS (
    INSERT INTO job (name, input)
    SELECT 'noop', given::jsonb FROM unnest(%s::text[]) AS given
    RETURNING id
)
SELECT count(*), pg_notify('job', 'default') FROM new
"""
COPY: Final = "COPY job (name, input) FROM STDIN"
TELL: Final = "SELECT pg_notify('job', 'default')"
FINISHED: Final = """
INSERT INTO job (name, input, state, finished_at, result)
SELECT 'noop', to_jsonb(n), 2, now(), 'null' FROM generate_series(1, %s) AS n
"""
CLAIM: Final = """
UPDATE job
   SET state = 1, attempt = attempt + 1, worker = %s, visible_at = now() + interval '60 s'
 WHERE id = ANY (ARRAY(
       SELECT id
         FROM job
        WHERE state = 0 AND queue = 'default' AND run_at <= now()
        ORDER BY priority DESC, run_at, id
          FOR UPDATE SKIP LOCKED
        LIMIT %s))
RETURNING id, name, input
"""
SETTLE: Final = """
UPDATE job
   SET state = 2, finished_at = now(), visible_at = NULL, result = given.result::jsonb
  FROM unnest(%s::bigint[], %s::text[]) AS given (id, result)
 WHERE job.id = given.id AND job.state = 1
"""
STEP: Final = "INSERT INTO step (job, place, name, output) VALUES (%s, %s, %s, %s::jsonb)"
UNFINISHED: Final = "SELECT EXISTS (SELECT 1 FROM job WHERE state < 2)"
