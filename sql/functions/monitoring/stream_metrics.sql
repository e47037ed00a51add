-- Metrics of the streams that this store delivers.
create or replace function relaybox_internal.stream_metrics()
returns table (metric text, labels jsonb, value double precision)
language sql stable
as $$
    select
        'relaybox_watermark_age_seconds',
        jsonb_build_object('hop', i.hop, 'stream', s.stream, 'watermark', 'delivered'),
        relaybox_internal.age_seconds(
            case when undecided.published_at is not null
                then greatest(undecided.published_at, newest.decided_at)
            end
        )
    from relaybox_internal.stream_log l
    join relaybox_internal.stream s on s.stream_id = l.stream_id
    join relaybox_internal.hop_in i on i.log_id = l.log_id
    left join lateral (
        select a.published_at from relaybox_internal.arrival a
        where a.log_id = l.log_id and a.batch > l.decided_batch
        order by a.batch limit 1
    ) undecided on true
    left join lateral (
        select d.decided_at from relaybox_internal.decision d
        where d.log_id = l.log_id
        order by d.batch desc limit 1
    ) newest on true
    union all
    select
        'relaybox_watermark_age_seconds',
        jsonb_build_object('stream', s.stream, 'watermark', 'sender'),
        relaybox_internal.age_seconds(min(h.held_at))
    from relaybox_internal.stream s
    left join relaybox_internal.held h on h.stream_id = s.stream_id
    group by s.stream
    union all
    select
        m.metric, jsonb_build_object('stream', s.stream), m.value
    from relaybox_internal.stream s
    cross join lateral (
        values
        ('relaybox_stream_delivered_messages_total', s.last_stream_position),
        ('relaybox_stream_duplicates_total', (
            select coalesce(sum(l.compacted_duplicates + (
                select coalesce(sum(d.duplicate_count), 0) from relaybox_internal.decision d
                where d.log_id = l.log_id
            )), 0)
            from relaybox_internal.stream_log l where l.stream_id = s.stream_id
        )),
        ('relaybox_stream_held_messages', (
            select count(*) from relaybox_internal.held h where h.stream_id = s.stream_id
        )),
        ('relaybox_stream_stalled_senders', (
            select count(*) from relaybox_internal.sender_state e
            where e.stream_id = s.stream_id and e.stalled_after is not null
        )),
        ('relaybox_dead_letters', (
            select count(*) from relaybox_internal.dead_letter d
            where d.stream_id = s.stream_id and d.state in ('open', 'redriving')
                and d.reason <> 'delayed'
        ))
    ) m (metric, value)
    union all
    select
        'relaybox_nonconforming_messages',
        jsonb_build_object('hop', i.hop, 'topic', c.topic),
        (
            select count(*) from relaybox_internal.nonconforming_message n
            where n.log_id = c.log_id and n.topic = c.topic
        )
    from relaybox_internal.hop_check c
    join relaybox_internal.hop_in i on i.log_id = c.log_id
$$;
