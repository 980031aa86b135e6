-- Choose jobs by what an operator asked for, newest first, looking at no more rows than the window has.
--
-- One source is read, each along an index: all jobs by creation, those that ended badly by creation, those that live, those
-- of one key, those about one object, or those of given ids. The conditions are asked of what was read. A limit that the
-- planner cannot see makes it expect a tenth of the rows: it then follows the index and does not read all to sort them.
WITH clock AS (
    SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now
),
most AS MATERIALIZED (
    SELECT %(window)s::int AS seen
),
cursor AS MATERIALIZED (
    SELECT c.id, c.created_at,
           (%(queue)s::text IS NULL OR c.queue = %(queue)s::text)
           AND (%(name)s::text IS NULL OR c.name = %(name)s::text)
           AND (%(tenant)s::text IS NULL OR c.tenant_id IS NOT DISTINCT FROM %(tenant)s::text)
           AND (%(key)s::text IS NULL OR c.idempotency_key = %(key)s::text)
           AND (%(related_id)s::text IS NULL
                OR (c.related_type_id, c.related_id) IS NOT DISTINCT FROM
                   (%(related_type)s::int, %(related_id)s::text)) AS fits
      FROM x_jobs AS c
     WHERE c.id = %(cursor)s::uuid
),
place AS (
    SELECT coalesce((SELECT c.created_at FROM cursor AS c),
                    'epoch'::timestamptz + %(cursor_at)s::bigint * interval '1 microsecond') AS created_at,
           %(cursor)s::uuid AS id
),
edges AS MATERIALIZED (
    SELECT coalesce((SELECT p.created_at FROM place AS p WHERE NOT %(backwards)s::bool), 'infinity') AS below_at,
           coalesce((SELECT p.id FROM place AS p WHERE NOT %(backwards)s::bool),
                    'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid) AS below_id,
           coalesce((SELECT p.created_at FROM place AS p WHERE %(backwards)s::bool), '-infinity') AS above_at,
           coalesce((SELECT p.id FROM place AS p WHERE %(backwards)s::bool),
                    '00000000-0000-0000-0000-000000000000'::uuid) AS above_id,
           coalesce(clock.now - %(older_than)s::interval, 'infinity') AS until,
           coalesce(clock.now - %(newer_than)s::interval, '-infinity') AS since
      FROM clock
),
seen AS MATERIALIZED (
    (SELECT j.id, j.created_at, j.state, j.queue, j.name, j.tenant_id, j.idempotency_key, j.related_type_id, j.related_id,
            CASE WHEN %(error_like)s::text IS NOT NULL THEN j.last_error END AS last_error
       FROM x_jobs AS j
      WHERE %(source)s::text = 'created'
        AND NOT %(backwards)s::bool
        AND (j.created_at, j.id) < ((SELECT e.below_at FROM edges AS e), (SELECT e.below_id FROM edges AS e))
        AND j.created_at <= (SELECT e.until FROM edges AS e)
        AND j.created_at >= (SELECT e.since FROM edges AS e)
      ORDER BY j.created_at DESC, j.id DESC
      LIMIT (SELECT w.seen FROM most AS w))
     UNION ALL
    (SELECT j.id, j.created_at, j.state, j.queue, j.name, j.tenant_id, j.idempotency_key, j.related_type_id, j.related_id,
            CASE WHEN %(error_like)s::text IS NOT NULL THEN j.last_error END
       FROM x_jobs AS j
      WHERE %(source)s::text = 'created'
        AND %(backwards)s::bool
        AND (j.created_at, j.id) > ((SELECT e.above_at FROM edges AS e), (SELECT e.above_id FROM edges AS e))
        AND j.created_at <= (SELECT e.until FROM edges AS e)
        AND j.created_at >= (SELECT e.since FROM edges AS e)
      ORDER BY j.created_at, j.id
      LIMIT (SELECT w.seen FROM most AS w))
     UNION ALL
    (SELECT j.id, j.created_at, j.state, j.queue, j.name, j.tenant_id, j.idempotency_key, j.related_type_id, j.related_id,
            CASE WHEN %(error_like)s::text IS NOT NULL THEN j.last_error END
       FROM x_jobs AS j
      WHERE %(source)s::text = 'ended'
        AND j.state IN ('cancelled', 'dead', 'failed')
        AND NOT %(backwards)s::bool
        AND (j.created_at, j.id) < ((SELECT e.below_at FROM edges AS e), (SELECT e.below_id FROM edges AS e))
        AND j.created_at <= (SELECT e.until FROM edges AS e)
        AND j.created_at >= (SELECT e.since FROM edges AS e)
      ORDER BY j.created_at DESC, j.id DESC
      LIMIT (SELECT w.seen FROM most AS w))
     UNION ALL
    (SELECT j.id, j.created_at, j.state, j.queue, j.name, j.tenant_id, j.idempotency_key, j.related_type_id, j.related_id,
            CASE WHEN %(error_like)s::text IS NOT NULL THEN j.last_error END
       FROM x_jobs AS j
      WHERE %(source)s::text = 'ended'
        AND j.state IN ('cancelled', 'dead', 'failed')
        AND %(backwards)s::bool
        AND (j.created_at, j.id) > ((SELECT e.above_at FROM edges AS e), (SELECT e.above_id FROM edges AS e))
        AND j.created_at <= (SELECT e.until FROM edges AS e)
        AND j.created_at >= (SELECT e.since FROM edges AS e)
      ORDER BY j.created_at, j.id
      LIMIT (SELECT w.seen FROM most AS w))
     UNION ALL
    (SELECT j.id, j.created_at, j.state, j.queue, j.name, j.tenant_id, j.idempotency_key, j.related_type_id, j.related_id,
            CASE WHEN %(error_like)s::text IS NOT NULL THEN j.last_error END
       FROM x_jobs AS j
      WHERE %(source)s::text = 'live'
        AND %(waiting)s::bool
        AND j.state IN ('delayed', 'ready', 'suspended')
        AND NOT j.blocked
        AND (%(queue)s::text IS NULL OR j.queue = %(queue)s::text)
      ORDER BY j.queue, j.priority DESC, j.run_at, j.id
      LIMIT (SELECT w.seen FROM most AS w))
     UNION ALL
    (SELECT j.id, j.created_at, j.state, j.queue, j.name, j.tenant_id, j.idempotency_key, j.related_type_id, j.related_id,
            CASE WHEN %(error_like)s::text IS NOT NULL THEN j.last_error END
       FROM x_jobs AS j
      WHERE %(source)s::text = 'live'
        AND %(waiting)s::bool
        AND j.state IN ('delayed', 'ready', 'suspended')
        AND j.blocked
        AND (%(queue)s::text IS NULL OR j.queue = %(queue)s::text)
      ORDER BY j.queue, j.run_at
      LIMIT (SELECT w.seen FROM most AS w))
     UNION ALL
    (SELECT j.id, j.created_at, j.state, j.queue, j.name, j.tenant_id, j.idempotency_key, j.related_type_id, j.related_id,
            CASE WHEN %(error_like)s::text IS NOT NULL THEN j.last_error END
       FROM x_jobs AS j
      WHERE %(source)s::text = 'live'
        AND %(running)s::bool
        AND j.state = 'running'
      ORDER BY j.claimed_by, j.visible_at
      LIMIT (SELECT w.seen FROM most AS w))
     UNION ALL
    (SELECT j.id, j.created_at, j.state, j.queue, j.name, j.tenant_id, j.idempotency_key, j.related_type_id, j.related_id,
            CASE WHEN %(error_like)s::text IS NOT NULL THEN j.last_error END
       FROM x_jobs AS j
      WHERE %(source)s::text = 'key'
        AND j.idempotency_key = %(key)s::text
        AND j.state IN ('delayed', 'ready', 'running', 'suspended')
      ORDER BY j.idempotency_key
      LIMIT (SELECT w.seen FROM most AS w))
     UNION ALL
    (SELECT j.id, j.created_at, j.state, j.queue, j.name, j.tenant_id, j.idempotency_key, j.related_type_id, j.related_id,
            CASE WHEN %(error_like)s::text IS NOT NULL THEN j.last_error END
       FROM x_jobs AS j
      WHERE %(source)s::text = 'key'
        AND j.idempotency_key = %(key)s::text
        AND j.state IN ('cancelled', 'dead', 'done', 'failed')
      ORDER BY j.idempotency_key
      LIMIT (SELECT w.seen FROM most AS w))
     UNION ALL
    (SELECT j.id, j.created_at, j.state, j.queue, j.name, j.tenant_id, j.idempotency_key, j.related_type_id, j.related_id,
            CASE WHEN %(error_like)s::text IS NOT NULL THEN j.last_error END
       FROM x_jobs AS j
      WHERE %(source)s::text = 'related'
        AND j.related_type_id = %(related_type)s::int
        AND j.related_id = %(related_id)s::text
      ORDER BY j.related_type_id, j.related_id
      LIMIT (SELECT w.seen FROM most AS w))
     UNION ALL
    (SELECT j.id, j.created_at, j.state, j.queue, j.name, j.tenant_id, j.idempotency_key, j.related_type_id, j.related_id,
            CASE WHEN %(error_like)s::text IS NOT NULL THEN j.last_error END
       FROM x_jobs AS j
      WHERE %(source)s::text = 'ids'
        AND j.id = ANY (ARRAY(SELECT g.id FROM unnest(%(ids)s::uuid[]) AS g (id)))
      LIMIT (SELECT w.seen FROM most AS w))
),
matching AS MATERIALIZED (
    SELECT s.id, s.created_at
      FROM seen AS s
     CROSS JOIN edges AS e
     WHERE (%(states)s::text[] IS NULL OR s.state = ANY (%(states)s::text[]))
       AND (%(queue)s::text IS NULL OR s.queue = %(queue)s::text)
       AND (%(name)s::text IS NULL OR s.name = %(name)s::text)
       AND (%(tenant)s::text IS NULL OR s.tenant_id = %(tenant)s::text)
       AND (%(key)s::text IS NULL OR s.idempotency_key = %(key)s::text)
       AND (%(related_id)s::text IS NULL
            OR (s.related_type_id = %(related_type)s::int AND s.related_id = %(related_id)s::text))
       AND (%(error_like)s::text IS NULL OR s.last_error ILIKE %(error_like)s::text)
       AND (s.created_at, s.id) < (e.below_at, e.below_id)
       AND (s.created_at, s.id) > (e.above_at, e.above_id)
       AND s.created_at <= e.until
       AND s.created_at >= e.since
     ORDER BY CASE WHEN %(backwards)s::bool THEN s.created_at END, CASE WHEN %(backwards)s::bool THEN s.id END,
              s.created_at DESC, s.id DESC
     LIMIT %(limit)s::int
),
last AS MATERIALIZED (
    SELECT s.id, s.created_at
      FROM seen AS s
     ORDER BY CASE WHEN %(backwards)s::bool THEN s.created_at END DESC, CASE WHEN %(backwards)s::bool THEN s.id END DESC,
              s.created_at, s.id
     LIMIT 1
)
SELECT ARRAY(SELECT m.id FROM matching AS m ORDER BY m.created_at DESC, m.id DESC) AS ids,
       ARRAY(SELECT (extract(epoch FROM m.created_at) * 1000000)::bigint
               FROM matching AS m
              ORDER BY m.created_at DESC, m.id DESC) AS instants,
       (SELECT count(*) FROM seen) AS seen,
       (SELECT l.id FROM last AS l) AS last_id,
       (SELECT (extract(epoch FROM l.created_at) * 1000000)::bigint FROM last AS l) AS last_instant,
       (SELECT c.fits FROM cursor AS c) AS cursor_fits;
