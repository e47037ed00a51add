-- The segments of the outbox (log_id is null) and of every log, oldest first: [first, last] of seqs or positions.
create or replace function relaybox_internal.segments()
returns table (log_id integer, segment regclass, first bigint, last bigint)
language sql stable
as $$
    select p.log_id, c.oid::regclass, bounds.ends[1]::bigint, bounds.ends[2]::bigint - 1
    from (
        select null::integer as log_id, 'relaybox.outbox'::regclass as parent
        union all
        select i.log_id, to_regclass(format('relaybox_internal.log_%s', i.log_id)) from relaybox_internal.hop_in i
    ) p
    join pg_inherits n on n.inhparent = p.parent
    join pg_class c on c.oid = n.inhrelid
    cross join lateral regexp_match(pg_get_expr(c.relpartbound, c.oid), $re$FROM \('?(\d+)'?\) TO \('?(\d+)'?\)$re$) bounds (ends)
    where bounds.ends is not null
    order by p.log_id nulls first, bounds.ends[1]::bigint
$$;
