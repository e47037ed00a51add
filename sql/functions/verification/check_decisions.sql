-- Compares a stream's decisions, the state of its senders and its cursors with its logs, in one snapshot: how often each rule of
-- relaybox.verification.stream_verification is broken, with a few examples. Of what retention has dropped nothing is asked.
create or replace function relaybox_internal.check_decisions(stream_name text)
returns table (kind text, violation_count bigint, examples text[])
language sql stable
set work_mem = '256MB'
set jit = off
as $$
    with stream as materialized (
        select * from relaybox_internal.stream s where s.stream = stream_name
    ), logs as materialized (
        select l.*, i.hop, i.published_batch, i.published_position, i.compacted_batch, i.first_kept_position
        from relaybox_internal.stream_log l join relaybox_internal.hop_in i on i.log_id = l.log_id
        where l.stream_id = (select s.stream_id from stream s)
    ), whole as (
        select count(*) = 1 or max(l.compacted_batch) = 0 as numbers, max(l.compacted_batch) = 0 as stream_positions,
        max(l.first_kept_position) = 1 as indexes
        from logs l
    ), decided as materialized (
        select l.hop, d.*, lead(d.first_arrival_seq, 1, s.arrival_seq + 1) over (order by d.first_arrival_seq) as next_taken
        from stream s join logs l on true join relaybox_internal.decision d on d.log_id = l.log_id
    ), arrived as materialized (
        select l.hop, l.decided_batch, l.decided_position, a.*
        from logs l join relaybox_internal.arrival a on a.log_id = l.log_id and a.batch > l.compacted_batch and a.batch <= l.decided_batch
    ), senders as materialized (
        select e.* from relaybox_internal.sender_state e where e.stream_id = (select s.stream_id from stream s)
    ), waiting as materialized (
        select h.log_id, h.log_position from relaybox_internal.held h where h.stream_id = (select s.stream_id from stream s)
        union all
        select d.log_id, d.log_position from relaybox_internal.dead_letter d where d.stream_id = (select s.stream_id from stream s)
            and d.subscription_id is null
    ), indexes as materialized (
        select g.sender, g.epoch, max(g.last_index) as last_index, max(g.last_index) filter (where g.is_done) as last_done
        from (
            select m.sender, m.epoch, m.index as last_index,
                w.log_position is null and (m.log_position > e.stalled_after) is not true as is_done
            from logs l
            join relaybox_internal.log m on m.log_id = l.log_id and m.log_position <= l.decided_position
            join senders e on e.sender = m.sender and e.epoch = m.epoch and e.origin = l.origin
            left join waiting w on w.log_id = m.log_id and w.log_position = m.log_position
            where m.epoch > 0 and exists (select from senders)
            union all
            select k.sender, k.epoch, k.last_index, true from relaybox_internal.skip k where k.stream_id = (select s.stream_id from stream s)
        ) g
        group by g.sender, g.epoch
    ), before_first as (
        select s.first_kept_stream_position - 1 as stream_position, l.hop, l.first_kept_position,
            coalesce(d.log_positions[s.first_kept_stream_position - d.first_stream_position],
            d.first_position + s.first_kept_stream_position - 1 - d.first_stream_position) as log_position
        from stream s
        join relaybox_internal.delivery d on d.stream_id = s.stream_id and s.first_kept_stream_position - 1 between d.first_stream_position
            and d.last_stream_position
        join logs l on l.log_id = d.log_id
    ), cursors as (
        select n.subscription, n.subscription_id, n as known, s.last_stream_position, c.lane, c.version, c.done_stream_position,
        c.fetched_stream_position,
            lag(c.version) over lane_order as version_before,
            greatest(lag(c.fetched_stream_position) over lane_order, lag(c.replay_stream_position) over lane_order) as could_reach
        from stream s
        join relaybox_internal.subscription n on n.stream_id = s.stream_id and n.ended_at is null and n.replay_of is null
        join relaybox_internal.cursor c on c.subscription_id = n.subscription_id
        window lane_order as (partition by c.subscription_id, c.lane order by c.version)
    ), broken as (
        select 'decision_missing' as kind, a.batch as at,
        format('batch %s of %s has no decision; decided is through batch %s', a.batch, a.hop, a.decided_batch) as example
        from arrived a left join decided d on d.log_id = a.log_id and d.batch = a.batch
        where d.batch is null
        union all
        select 'decision_contradicts', d.batch, format('batch %s of %s: decided on %s rows, %s have arrived', d.batch, d.hop, d.row_count,
        coalesce(a.row_count, 0))
        from decided d left join arrived a on a.log_id = d.log_id and a.batch = d.batch
        where a.row_count is distinct from d.row_count
        union all
        select 'decision_contradicts', d.batch, format('batch %s of %s: %s duplicates counted, %s listed', d.batch, d.hop, d.duplicate_count,
        coalesce(cardinality(d.duplicates), 0))
        from decided d where d.duplicate_count <> coalesce(cardinality(d.duplicates), 0)
        union all
        select 'decision_contradicts', d.batch,
            format('batch %s of %s takes numbers %s to %s, the next decision begins at %s', d.batch, d.hop, d.first_arrival_seq,
            d.first_arrival_seq + d.row_count - 1, d.next_taken)
        from decided d cross join whole w
        where w.numbers and d.next_taken <> d.first_arrival_seq + d.row_count
        union all
        select 'decision_contradicts', a.batch, format('%s is decided through position %s, batch %s ends at %s', a.hop, a.decided_position, a.batch,
        a.last_position)
        from arrived a where a.batch = a.decided_batch and a.decided_position <> a.last_position
        union all
        select 'decision_contradicts', l.decided_batch,
        format('%s is decided through batch %s, published is batch %s', l.hop, l.decided_batch, l.published_batch)
        from logs l where l.decided_batch > l.published_batch
        union all
        select 'decision_contradicts', s.last_stream_position,
        format('%s stream positions are filled, decisions delivered %s', s.last_stream_position, d.delivered_count)
        from stream s cross join whole w cross join (select coalesce(sum(k.delivered_count), 0) as delivered_count from decided k) d
        where w.stream_positions and d.delivered_count <> s.last_stream_position
        union all
        select 'sender_contradicts', e.watermark,
            format('sender %s, epoch %s is done through index %s; index %s is the highest that has come', e.sender, e.epoch, e.watermark,
            coalesce(i.last_index, 0))
        from senders e cross join whole w left join indexes i on i.sender = e.sender and i.epoch = e.epoch
        where w.indexes and e.watermark > coalesce(i.last_index, 0)
        union all
        select 'sender_contradicts', e.watermark,
            format('sender %s, epoch %s is done through index %s; index %s was decided on, and neither waits nor was set aside', e.sender, e.epoch,
            e.watermark, i.last_done)
        from stream s join senders e on s.delivery_order in ('fifo', 'causal') and e.begun_at is not null
        join indexes i on i.sender = e.sender and i.epoch = e.epoch
        where i.last_done > e.watermark and e.epoch = (select max(f.epoch) from senders f where f.sender = e.sender and f.begun_at is not null)
        union all
        select 'stream_position_called_dropped', b.stream_position,
        format('the stream begins at stream position %s; position %s of %s, at stream position %s, is kept: it begins at %s', b.stream_position + 1, b.log_position, b.hop, b.stream_position, b.first_kept_position)
        from before_first b where b.log_position >= b.first_kept_position
        union all
        select 'cursor_contradicts', c.done_stream_position,
        format('subscription %s, lane %s is done through stream position %s, the stream ends at stream position %s', c.subscription, c.lane, c.done_stream_position, c.last_stream_position)
        from cursors c where greatest(c.done_stream_position, c.fetched_stream_position) > c.last_stream_position
        union all
        select 'cursor_contradicts', c.done_stream_position,
        format('subscription %s, lane %s: version %s follows version %s', c.subscription, c.lane, c.version, c.version_before)
        from cursors c where c.version <> c.version_before + 1
        union all
        select 'cursor_contradicts', 0, format('subscription %s ended at %s, and %s of its lanes are here', n.subscription, n.ended_at, count(*))
        from stream s
        join relaybox_internal.subscription n on n.stream_id = s.stream_id and n.ended_at is not null
        join relaybox_internal.lane k on k.subscription_id = n.subscription_id
        group by n.subscription_id, n.subscription, n.ended_at
        union all
        select 'cursor_contradicts', 0, format('subscription %s reads %s; it subscribed to %s', n.subscription,
        coalesce('topic ' || n.topic, 'every topic'), a.source)
        from stream s
        join relaybox_internal.subscription n on n.stream_id = s.stream_id and n.ended_at is null and n.replay_of is null
        cross join lateral (
            select k.detail ->> 'source' as source from relaybox.consumer_action k
            where k.subscription = n.subscription and k.action = 'subscribe' order by k.action_id desc limit 1
        ) a
        where n.topic is distinct from nullif(a.source, s.stream)
        union all
        -- version 2 may be a cursor that was restored (relaybox rebuild)
        select 'cursor_contradicts', c.done_stream_position,
            format('subscription %s, lane %s went to stream position %s, fetched were stream positions through %s', c.subscription, c.lane,
            c.done_stream_position, c.could_reach)
        from cursors c
        where c.done_stream_position > c.could_reach and c.version > 2 and c.done_stream_position <= c.last_stream_position
            and (select s.row_count from relaybox_internal.scan_lane(c.known, c.lane, c.could_reach, c.done_stream_position, 1) s) > 0
    )
    select b.kind, count(*), (array_agg(b.example order by b.at))[1:5] from broken b group by b.kind
$$;
