-- Let go of claims that their worker can do nothing more for, although it lives on: they lapse by their own deadline.
UPDATE x_jobs AS j
   SET claimed_by = %(worker)s::text || ' (disowned)'
  FROM unnest(%(ids)s::uuid[], %(claims)s::int[]) AS g (id, claim)
 WHERE j.id = g.id
   AND j.claim = g.claim
   AND j.claimed_by = %(worker)s::text
   AND j.state = 'running'
RETURNING j.id;
