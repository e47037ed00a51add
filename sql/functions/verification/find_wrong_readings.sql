-- Where a hop reads beyond its source, or its backlog contradicts its topics: a sentence for each,
-- with the numbers of both sides. Inlined in source_contradictions().
create or replace function relaybox_internal.find_wrong_readings(hop_name text) returns setof text
language sql stable
as $$
    with head as materialized (
        select * from relaybox_internal.hop_out h where h.hop = hop_name
    )
    select format(
        'ledger of the source: read through position %s of the log of %s; '
        'that log ends at position %s',
        r.read_through, i.hop, i.published_position
    )
    from head h
    join relaybox_internal.hop_in i on i.log_id = h.reads_log
    cross join lateral relaybox_internal.log_read_through(hop_name) r (read_through)
    where r.read_through > i.published_position
    union all
    select format(
        'backlog: piece %s is %s and has topics %s; the hop moves topics %s',
        p.backlog_id, p.state, array_to_string(p.topics, ', '), array_to_string(h.topics, ', ')
    )
    from head h join relaybox_internal.backlog p on p.hop = h.hop
    where h.retired_at is null and (
        p.state = 'unrouted' and p.topics && h.topics
        or p.state = 'routed' and not p.topics <@ h.topics
    )
    union all
    select format(
        'ledger of the source: the next batch reads what snapshot %s does not see; '
        'the next transaction of the cluster is %s',
        h.lower, pg_snapshot_xmax(pg_current_snapshot())
    )
    from head h where pg_snapshot_xmax(h.lower) > pg_snapshot_xmax(pg_current_snapshot())
    union all
    (
        select format(
            'ledger of the source: the next batch reads what snapshot %s does not see, '
            'batch %s has read up to snapshot %s', h.lower, b.batch, b.upper
        )
        from head h
        join relaybox_internal.batch b on b.hop = hop_name and b.generation = h.generation
            and b.upper::text <> relaybox_internal.full_snapshot()::text
        where pg_snapshot_xmax(b.upper) > pg_snapshot_xmax(h.lower)
            or pg_snapshot_xmin(b.upper) > pg_snapshot_xmin(h.lower)
        order by b.batch desc
        limit 1
    )
$$;
