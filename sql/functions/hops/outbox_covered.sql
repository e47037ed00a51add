-- Returns the first seq that no segment of the outbox covers yet. The end of a sealed segment is in
-- its record.
create or replace function relaybox_internal.outbox_covered() returns bigint
language sql stable
as $$
    select coalesce(max(coalesce(
        s.last_seq + 1,
        case
            when s.segment is null then (
                select (regexp_match(
                    pg_get_expr(c.relpartbound, c.oid), $re$TO \('?(\d+)'?\)$re$
                ))[1]::bigint
                from pg_class c
                where c.oid = i.inhrelid
            )
        end
    )), 0)
    from pg_inherits i
    left join relaybox_internal.sealed_segment s
        on s.segment = i.inhrelid
        and s.xmin::text::bigint = s.sealed_xid::text::numeric % 4294967296
    where i.inhparent = 'relaybox.outbox'::regclass
$$;
