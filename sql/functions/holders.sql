-- Who needs what of the outbox (log_id null) or of a log; no row for whom it has nothing.
create or replace function relaybox.holders(log_id integer)
returns table (kind text, holder text, needs_from bigint, since timestamptz, policy text)
language sql stable
as $$
    select h.* from relaybox.outbox_holders() h where log_id is null and h.needs_from is not null
    union all
    select h.* from relaybox.log_holders(log_id) h where log_id is not null and h.needs_from is not null
$$;
