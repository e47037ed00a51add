-- Which index of a sender has to be done with before one of its messages counts as delivered: its own, or, where it was set aside
-- before its turn or given up, the last one before it that was not. skipped: sender_state's.
create or replace function relaybox_internal.index_to_resolve(skipped int8multirange, index bigint) returns bigint
language sql immutable
as $$
    select case when skipped @> index then (select lower(r) - 1 from unnest(skipped) r where r @> index) else index end
$$;
