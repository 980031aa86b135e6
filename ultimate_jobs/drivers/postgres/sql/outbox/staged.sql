-- Name the staged rows, visible here, that hold some keys.
SELECT o.id
  FROM x_outbox AS o
 WHERE o.name = %(name)s::text
   AND coalesce(o.tenant_id, '') = coalesce(%(tenant_id)s::text, '')
   AND o.idempotency_key = ANY (%(keys)s::text[])
   AND o.published_at IS NULL;
