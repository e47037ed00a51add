-- What a store has decided about a position of a log: delivered at a stream position, a duplicate
-- of an earlier position, set aside, held, waiting in the log behind its stalled sender, dropped by
-- retention, or nothing yet. No row: the hop's stream is not registered here. waits_for: of a held
-- message, [{sender, epoch, first_index, last_index}] that must be delivered before it.
create or replace function relaybox_internal.trace_delivery(hop_name text, log_position_ bigint)
returns table (
    stream text, delivery_order text, delivery_state text, stream_position bigint, duplicate_of bigint, reason text, decided_at timestamptz,
    waits_for jsonb
)
language sql stable
as $$
    select
        s.stream, s.delivery_order,
        case
            when f.stream_position is not null then 'delivered'
            when x.reason is not null then 'set_aside'
            when h.log_position is not null then 'held'
            when b.log_position is not null then 'duplicate'
            when w.stalled_reason is not null then 'stalled'
            when log_position_ < n.first_kept_position then 'dropped'
            when log_position_ <= i.decided_position then 'lost'
            else 'undecided'
        end,
        f.stream_position, b.original, coalesce(x.reason, w.stalled_reason),
        coalesce(t.delivered_at, f.delivered_at, x.first_at, h.held_at, b.decided_at),
        case when h.log_position is not null then coalesce((
            select jsonb_agg(jsonb_build_object('sender', q.sender, 'epoch', q.epoch, 'first_index', q.first_index, 'last_index', q.last_index))
            from (
                select e.sender, e.epoch, lower(r) as first_index, upper(r) - 1 as last_index
                from relaybox_internal.sender_state e
                cross join lateral (
                    select range_agg(int8range(o.index, o.index + 1)) as indexes from relaybox_internal.held o where o.sender_id = e.sender_id
                ) o
                cross join lateral unnest(int8multirange(int8range(e.watermark + 1, greatest(h.index, e.watermark + 1))) - o.indexes - e.skipped) r
                where e.sender_id = h.sender_id
                union all
                select u.sender, u.epoch, u.index, u.index from relaybox_internal.unmet_causes(s.stream_id, i.log_id, log_position_) u
            ) q
        ), '[]') end
    from relaybox_internal.stream_log i
    join relaybox_internal.hop_in n on n.log_id = i.log_id
    join relaybox_internal.stream s on s.stream_id = i.stream_id
    left join relaybox_internal.log l on l.log_id = i.log_id and l.log_position = log_position_
    left join lateral (
        select d.first_stream_position + coalesce(array_position(d.log_positions, log_position_) - 1,
        log_position_ - d.first_position) as stream_position, d.delivered_at
        from relaybox_internal.delivery d
        where d.stream_id = i.stream_id and d.log_id = i.log_id and (
            d.log_positions is null and log_position_ between d.first_position and d.first_position + d.last_stream_position - d.first_stream_position
            or log_position_ = any(d.log_positions)
        )
        limit 1
    ) f on true
    -- the run that a stream position is in has the time of its newest stream position; recorded times never go back in the order of stream positions
    left join lateral (
        select greatest(min(d.decided_at), (
            select max(r.delivered_at) from relaybox_internal.late_delivery r where r.stream_id = i.stream_id and r.after_stream_position < f.stream_position
        )) as delivered_at
        from relaybox_internal.stream_log o join relaybox_internal.decision d on d.log_id = o.log_id
        where o.stream_id = i.stream_id and d.last_stream_position >= f.stream_position
    ) t on true
    left join relaybox_internal.dead_letter x on x.log_id = i.log_id and x.log_position = log_position_ and x.subscription_id is null
    left join relaybox_internal.held h on h.log_id = i.log_id and h.log_position = log_position_
    left join lateral (
        select log_position_ as log_position, d.decided_at, (
            select min(o.log_position) from relaybox_internal.log o
            where o.log_id = i.log_id and o.log_position < log_position_ and (
                l.epoch > 0 and (o.sender, o.epoch, o.index) = (l.sender, l.epoch, l.index)
                or o.log_position >= log_position_ - s.message_id_window and o.message_id = l.message_id
            )
        ) as original
        from relaybox_internal.decision d where d.log_id = i.log_id and log_position_ = any(d.duplicates)
        limit 1
    ) b on true
    left join relaybox_internal.sender_state w on w.stream_id = i.stream_id and w.sender = l.sender and w.epoch = l.epoch and w.stalled_after < log_position_
        and log_position_ <= i.decided_position
    where n.hop = hop_name
$$;
