-- What is wrong within the source ledger of a hop, in one snapshot: a sentence for each, with the numbers of both sides. No row: nothing.
-- Reads the ledger once, no message.
create or replace function relaybox_internal.source_contradictions(hop_name text) returns setof text
language sql stable
set jit = off
as $$
    with head as materialized (
        select h.*, i.hop as log_of, i.published_position as source_log_position,
            coalesce((select c.through_batch from relaybox_internal.newest_confirmation(hop_name, 'received') c), 0) as received_batch,
            coalesce((select c.through_position from relaybox_internal.newest_confirmation(hop_name, 'received') c), 0) as received_position,
            coalesce((select c.through_position from relaybox_internal.newest_confirmation(hop_name, 'processed') c), 0) as processed_position,
            coalesce((select c.through_position from relaybox_internal.newest_confirmation(hop_name, 'settled') c), 0) as settled_position
        from relaybox_internal.hop_out h left join relaybox_internal.hop_in i on i.log_id = h.reads_log
        where h.hop = hop_name
    ), planned as materialized (
        select b.*, lag(b.generation) over (order by b.batch) as generation_before from relaybox_internal.batch b where b.hop = hop_name
    ), newest as (
        select n.* from planned n order by n.batch desc limit 1
    ), slices as (
        select b.batch, b.row_count, b.first_position, b.last_position, b.reads_after, b.reads_through,
            sum(s.row_count) as slice_rows, min(s.first_position) as slices_first, max(s.first_position + s.row_count - 1) as slices_last,
            bool_or(s.first_position <> s.position_before + 1 or s.first_read <= s.read_before or s.last_read < s.first_read) as out_of_step,
            min(s.first_read) as first_read, max(s.last_read) as last_read
        from planned b
        cross join lateral (
            select c.*,
                lag(c.first_position + c.row_count - 1, 1, b.first_position - 1) over (order by c.slice) as position_before,
                lag(c.last_read, 1, b.reads_after) over (order by c.slice) as read_before
            from relaybox_internal.batch_slices(b.slices) c
        ) s
        where not b.adopted
        group by b.batch, b.row_count, b.first_position, b.last_position, b.reads_after, b.reads_through
    )
    select format(
        'ledger of the source: the hop stands at batch %s, position %s; its newest batch is %s and ends at position %s',
        h.batch, h.log_position, coalesce(n.batch, h.compacted_batch), coalesce(n.last_position, h.compacted_position)
    )
    from head h left join newest n on true
    where (h.batch, h.log_position) <> (coalesce(n.batch, h.compacted_batch), coalesce(n.last_position, h.compacted_position))
    union all
    select format(
        'ledger of the source: batch %s has %s rows at positions %s to %s, read within (%s, %s]; its slices have %s rows at positions %s to %s, ' ||
            'read from %s to %s',
        s.batch, s.row_count, s.first_position, s.last_position, s.reads_after, s.reads_through,
        s.slice_rows, s.slices_first, s.slices_last, s.first_read, s.last_read
    )
    from slices s
    where s.out_of_step or s.last_read > s.reads_through
        or (s.slice_rows, s.slices_first, s.slices_last) <> (s.row_count, s.first_position, s.last_position)
    union all
    select format('ledger of the source: read through position %s of the log of %s; that log ends at position %s', r.read_through, h.log_of,
    h.source_log_position)
    from head h cross join lateral relaybox_internal.log_read_through(hop_name) as r (read_through)
    where r.read_through > h.source_log_position
    union all
    select format(
        'ledger of the source: batch %s is %s through position %s; %s', c.through_batch, c.state, c.through_position,
        case when b.batch is null then 'the ledger has no such batch' else format('it ends at position %s', b.last_position) end
    )
    from head h
    join relaybox_internal.confirmation c on c.hop = hop_name and c.through_position > h.compacted_position
    left join planned b on b.batch = c.through_batch
    where b.last_position is distinct from c.through_position
    union all
    select format('ledger of the source: batch %s is planned, received is confirmed through batch %s only', h.batch, h.received_batch)
    from head h where h.received_batch < h.batch - 1
    union all
    select format('ledger of the source: %s through position %s, received only through position %s', c.state, c.through_position, h.received_position)
    from head h cross join lateral (values ('processed', h.processed_position), ('settled', h.settled_position)) c (state, through_position)
    where c.through_position > h.received_position
    union all
    select format('ledger of the source: batches through %s may be sent again, received is confirmed through batch %s only', h.resend_through,
    h.received_batch)
    from head h where h.resend_through > h.received_batch
    union all
    select format('the hop was retired by %s at %s (%s): nobody moves its messages, and relaybox.yaml has it', h.retired_by, h.retired_at,
    h.retired_reason)
    from head h where h.retired_at is not null
    union all
    select format('ledger of the source: batch %s is called adopted; no generation on record adopted it', b.batch)
    from planned b
    where b.adopted and not exists (
        select from relaybox_internal.generation g where g.hop = hop_name and b.batch between g.adopted_from and g.adopted_through
    )
    union all
    select format('ledger of the source: generation %s found %s ghosts, %s are listed', g.generation, g.ghost_count, l.listed_count)
    from relaybox_internal.generation g
    cross join lateral (select count(*) as listed_count from relaybox_internal.ghost k where k.hop = hop_name and k.generation = g.generation) l
    -- a newer generation lists those of an older one anew
    where g.hop = hop_name and (
        l.listed_count > g.ghost_count
        or l.listed_count < g.ghost_count and g.generation = (select max(f.generation) from relaybox_internal.generation f where f.hop = hop_name)
    )
    union all
    select format('ledger of the source: batches through position %s are removed, settled is only position %s', h.compacted_position,
    h.settled_position)
    from head h where h.compacted_position > h.settled_position and h.retired_at is null
    union all
    select format('ledger of the source: the hop is in generation %s, the newest one on record is %s', h.generation, g.generation)
    from head h
    cross join lateral (select coalesce(max(k.generation), 1) as generation from relaybox_internal.generation k where k.hop = hop_name) g
    where g.generation <> h.generation
    union all
    select format('ledger of the source: batch %s is of generation %s, the one before it of generation %s, the hop of generation %s',
        b.batch, b.generation, b.generation_before, h.generation)
    from head h join planned b on b.generation < b.generation_before or b.generation > h.generation
    union all
    select format('ledger of the source: the hop is at attempt %s, attempt %s is on record', h.attempt, a.attempt)
    from head h
    cross join lateral (select max(k.attempt) as attempt from relaybox_internal.attempt k where k.hop = hop_name) a
    where a.attempt > h.attempt
    union all
    select format('backlog: piece %s is %s and has topics %s; the hop moves topics %s', p.backlog_id, p.state, array_to_string(p.topics, ', '),
    array_to_string(h.topics, ', '))
    from head h join relaybox_internal.backlog p on p.hop = h.hop
    where h.retired_at is null and (p.state = 'unrouted' and p.topics && h.topics or p.state = 'routed' and not p.topics <@ h.topics)
    union all
    select format(
        'ledger of the source: the next batch reads what snapshot %s does not see; the next transaction of the cluster is %s', h.lower,
        pg_snapshot_xmax(pg_current_snapshot())
    )
    from head h where pg_snapshot_xmax(h.lower) > pg_snapshot_xmax(pg_current_snapshot())
    union all
    (
        select format('ledger of the source: the next batch reads what snapshot %s does not see, batch %s has read up to snapshot %s', h.lower,
        b.batch, b.upper)
        from head h join planned b on b.generation = h.generation and b.upper::text <> relaybox_internal.full_snapshot()::text
        where pg_snapshot_xmax(b.upper) > pg_snapshot_xmax(h.lower) or pg_snapshot_xmin(b.upper) > pg_snapshot_xmin(h.lower)
        order by b.batch desc
        limit 1
    )
$$;
