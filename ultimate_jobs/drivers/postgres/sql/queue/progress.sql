-- Write how far runs have come, each only while its own claim stands.
UPDATE x_jobs AS j
   SET progress = g.progress::jsonb
  FROM unnest(%(ids)s::uuid[], %(claims)s::int[], %(progress)s::text[]) AS g (id, claim, progress)
 WHERE j.id = g.id
   AND j.claim = g.claim
   AND j.claimed_by = %(worker)s::text
   AND j.state = 'running'
RETURNING j.id;
