-- Returns the first seq that no segment of the outbox covers yet.
create or replace function relaybox_internal.outbox_covered() returns bigint
language sql stable
as $$
    select coalesce(
        max(
            (regexp_match(pg_get_expr(c.relpartbound, c.oid), $re$TO \('?(\d+)'?\)$re$))[1]::bigint
        ),
        0
    )
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'relaybox.outbox'::regclass
$$;
