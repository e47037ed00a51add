-- The holders of the outbox (log_id_ null) or of a log, and the first row that each needs. A holder
-- that needs nothing has no row. detachable: it stopped, and its route detaches what only it needs.
create or replace function relaybox_internal.holders(log_id_ integer)
returns table (
    kind text, holder text, needs_from bigint, since timestamptz, policy text, detachable boolean
)
language sql stable
as $$
    select h.*, false from relaybox_internal.outbox_holders() h
    where log_id_ is null and h.needs_from is not null
    union all
    select h.* from relaybox_internal.log_holders(log_id_) h
    where log_id_ is not null and h.needs_from is not null
$$;
