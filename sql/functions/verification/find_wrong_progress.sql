-- Where a stream's record of what it has decided does not match its logs: decided through another
-- position than the batch ends at, decided beyond what is published, or another number of delivered
-- messages than stream positions. Inlined in check_decisions().
create or replace function relaybox_internal.find_wrong_progress(stream_name text)
returns table (kind text, at bigint, example text)
language sql stable
as $$
    with own_stream as materialized (
        select * from relaybox_internal.stream s where s.stream = stream_name
    ), own_log as materialized (
        select l.*, i.hop, i.published_batch, i.compacted_batch
        from own_stream s
        join relaybox_internal.stream_log l on l.stream_id = s.stream_id
        join relaybox_internal.hop_in i on i.log_id = l.log_id
    )
    select 'decision_contradicts', a.batch,
        format(
            '%s is decided through position %s, batch %s ends at %s',
            o.hop, o.decided_position, a.batch, a.last_position
        )
    from own_log o
    join relaybox_internal.arrival a on a.log_id = o.log_id and a.batch = o.decided_batch
    where a.batch > o.compacted_batch and a.last_position <> o.decided_position
    union all
    select 'decision_contradicts', o.decided_batch,
        format(
            '%s is decided through batch %s, published is batch %s',
            o.hop, o.decided_batch, o.published_batch
        )
    from own_log o
    where o.decided_batch > o.published_batch
    union all
    select 'decision_contradicts', s.last_stream_position,
        format(
            '%s stream positions are filled, decisions delivered %s',
            s.last_stream_position, d.delivered_count
        )
    from own_stream s
    cross join (
        select coalesce(sum(k.delivered_count), 0) as delivered_count
        from own_log o join relaybox_internal.decision k on k.log_id = o.log_id
    ) d
    where d.delivered_count <> s.last_stream_position
        -- retention removes decisions, and their counts with them
        and (select max(o.compacted_batch) from own_log o) = 0
$$;
