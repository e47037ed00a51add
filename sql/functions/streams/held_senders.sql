-- Lists the senders of a stream with held messages and the stalled ones: what they wait for, and
-- since when. Reads only. missing: [[first, last], ...], the sender's own indexes that have not
-- come. causes: per sender and epoch, what the clocks of its held messages name and is not
-- delivered. waiting_count: messages of a stalled sender that wait in the log.
create or replace function relaybox_internal.held_senders(stream_name text)
returns table (
    sender text, epoch integer, origin text, delivered_through bigint, missing jsonb,
    held_count bigint, first_held_index bigint, held_since timestamptz, stalled_after bigint,
    stalled_reason text, waiting_count bigint, causes jsonb
)
language sql stable
as $$
    select
        s.sender, s.epoch, s.origin, s.watermark,
        coalesce((
            select jsonb_agg(jsonb_build_array(lower(r), upper(r) - 1) order by lower(r))
            from unnest(
                int8multirange(int8range(s.watermark + 1, greatest(h.last_index, s.watermark) + 1))
                - coalesce(h.indexes, '{}') - coalesce(w.indexes, '{}') - s.skipped
            ) r
        ), '[]'),
        coalesce(h.held_count, 0), h.first_index, h.since, s.stalled_after, s.stalled_reason,
        coalesce(w.waiting_count, 0), coalesce(c.causes, '[]')
    from relaybox_internal.stream own_stream
    join relaybox_internal.sender_state s on s.stream_id = own_stream.stream_id
    left join lateral (
        select count(*) as held_count, min(o.index) as first_index, max(o.index) as last_index,
            min(o.held_at) as since,
            range_agg(int8range(o.index, o.index + 1)) as indexes
        from relaybox_internal.held o where o.sender_id = s.sender_id
    ) h on true
    left join lateral (
        select count(*) as waiting_count, range_agg(int8range(l.index, l.index + 1)) as indexes
        from relaybox_internal.stream_log i
        join relaybox_internal.log l on l.log_id = i.log_id and l.log_position > s.stalled_after
            and l.log_position <= i.decided_position
        where i.stream_id = s.stream_id and i.origin = s.origin and l.sender = s.sender
            and l.epoch = s.epoch
    ) w on s.stalled_after is not null
    left join lateral (
        select jsonb_agg(
            jsonb_build_object(
                'sender', g.sender, 'epoch', g.epoch, 'first_index', g.first_index,
                'last_index', g.last_index, 'waiting_count', g.waiting_count,
                'delivered_through', g.watermark, 'origin', g.origin,
                'first_waiting_index', g.first_waiting_index
            ) order by g.sender, g.epoch
        ) as causes
        from (
            select u.sender, u.epoch, min(u.index) as first_index, max(u.index) as last_index,
                count(distinct (o.log_id, o.log_position)) as waiting_count,
                min(u.watermark) as watermark, min(u.origin) as origin,
                min(o.index) as first_waiting_index
            from relaybox_internal.held o
            cross join lateral relaybox_internal.unmet_causes(
                s.stream_id, o.log_id, o.log_position
            ) u
            where o.sender_id = s.sender_id
            group by u.sender, u.epoch
        ) g
    ) c on own_stream.delivery_order = 'causal'
    where own_stream.stream = stream_name and (h.held_count > 0 or s.stalled_after is not null)
    order by least(h.since, s.moved_at), s.sender, s.epoch
$$;
