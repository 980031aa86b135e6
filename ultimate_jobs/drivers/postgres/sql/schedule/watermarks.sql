-- Answer how far each task has come. A task that is seen for the first time, or under a changed rule, starts where it
-- says: what lies before is passed over. The answer is empty for one that another scheduler starts at this moment.
WITH given AS MATERIALIZED (
    SELECT g.name, g.rule, g.start
      FROM unnest(%(names)s::text[], %(rules)s::text[], %(starts)s::timestamptz[]) AS g (name, rule, start)
),
known AS MATERIALIZED (
    SELECT s.name, s.rule, s.watermark
      FROM x_scheduler_state AS s
     WHERE s.name = ANY (%(names)s::text[])
),
started AS (
    INSERT INTO x_scheduler_state AS s (name, rule, watermark)
    SELECT g.name, g.rule, g.start
      FROM given AS g
      LEFT JOIN known AS k ON k.name = g.name
     WHERE k.rule IS DISTINCT FROM g.rule
     ORDER BY g.name
        ON CONFLICT (name) DO UPDATE
       SET rule = excluded.rule, watermark = greatest(s.watermark, excluded.watermark)
     WHERE s.rule <> excluded.rule
    RETURNING s.name, s.watermark
)
SELECT g.name,
       (extract(epoch FROM came.up_to) * 1000000)::bigint AS watermark
  FROM given AS g
  LEFT JOIN known AS k ON k.name = g.name
  LEFT JOIN started AS n ON n.name = g.name
 CROSS JOIN LATERAL (SELECT CASE WHEN k.rule = g.rule THEN k.watermark ELSE n.watermark END AS up_to) AS came;
