-- The segments of the outbox (log_id is null) and of every log, oldest first: [first, last] of seqs or
-- positions. The bounds of a sealed segment are in its record: its row of the catalog is not read.
create or replace function relaybox_internal.segments()
returns table (log_id integer, segment regclass, first bigint, last bigint)
language sql stable
as $$
    select
        p.log_id, n.inhrelid::regclass, coalesce(s.first_seq, bounds.ends[1]::bigint),
        coalesce(s.last_seq, bounds.ends[2]::bigint - 1)
    from (
        select null::integer as log_id, 'relaybox.outbox'::regclass as parent
        union all
        select i.log_id, to_regclass(format('relaybox_internal.log_%s', i.log_id))
        from relaybox_internal.hop_in i
    ) p
    join pg_inherits n on n.inhparent = p.parent
    left join relaybox_internal.sealed_segment s
        on s.segment = n.inhrelid
        and s.xmin::text::bigint = s.sealed_xid::text::numeric % 4294967296
    cross join lateral (
        select case
            when s.segment is null then (
                select regexp_match(
                    pg_get_expr(c.relpartbound, c.oid),
                    $re$FROM \('?(\d+)'?\) TO \('?(\d+)'?\)$re$
                )
                from pg_class c
                where c.oid = n.inhrelid
            )
        end as ends
        offset 0 -- read once for both ends
    ) bounds
    where s.segment is not null or bounds.ends is not null
    order by p.log_id nulls first, 3
$$;
