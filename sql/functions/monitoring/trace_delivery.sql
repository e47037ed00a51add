-- What a store has decided about a position of a log: delivered at a place, a duplicate of an earlier position, set aside, held,
-- waiting in the log behind its stalled sender, dropped by retention, or nothing yet. No row: the hop's stream is not registered here.
-- waits_for: of a held message, [{sender, epoch, first_index, last_index}] that must be delivered before it.
create or replace function relaybox.trace_delivery(hop_name text, position_ bigint)
returns table (
    stream text, delivery_order text, fate text, place bigint, duplicate_of bigint, reason text, decided_at timestamptz, waits_for jsonb
)
language sql stable
as $$
    select
        s.stream, s.delivery_order,
        case
            when f.place is not null then 'delivered'
            when x.reason is not null then 'set aside'
            when h.position is not null then 'held'
            when b.position is not null then 'duplicate'
            when w.stalled_reason is not null then 'stalled'
            when position_ < n.first_kept_position then 'no longer kept'
            when position_ <= i.decided_position then 'lost'
            else 'undecided'
        end,
        f.place, b.original, coalesce(x.reason, w.stalled_reason), coalesce(t.delivered_at, f.delivered_at, x.first_at, h.held_at, b.decided_at),
        case when h.position is not null then coalesce((
            select jsonb_agg(jsonb_build_object('sender', q.sender, 'epoch', q.epoch, 'first_index', q.first_index, 'last_index', q.last_index))
            from (
                select e.sender, e.epoch, lower(r) as first_index, upper(r) - 1 as last_index
                from relaybox.sender_state e
                cross join lateral (
                    select range_agg(int8range(o.index, o.index + 1)) as indexes from relaybox.held o where o.sender_id = e.sender_id
                ) o
                cross join lateral unnest(int8multirange(int8range(e.watermark + 1, greatest(h.index, e.watermark + 1))) - o.indexes - e.skipped) r
                where e.sender_id = h.sender_id
                union all
                select u.sender, u.epoch, u.index, u.index from relaybox.unmet_causes(s.stream_id, i.hop_id, position_) u
            ) q
        ), '[]') end
    from relaybox.stream_log i
    join relaybox.hop_in n on n.hop_id = i.hop_id
    join relaybox.stream s on s.stream_id = i.stream_id
    left join relaybox.log l on l.hop_id = i.hop_id and l.position = position_
    left join lateral (
        select d.first_place + coalesce(array_position(d.positions, position_) - 1, position_ - d.first_position) as place, d.delivered_at
        from relaybox.delivery d
        where d.stream_id = i.stream_id and d.hop_id = i.hop_id and (
            d.positions is null and position_ between d.first_position and d.first_position + d.last_place - d.first_place
            or position_ = any(d.positions)
        )
        limit 1
    ) f on true
    -- the run that a place is in has the time of its newest place; recorded times never go back in the order of places
    left join lateral (
        select greatest(min(d.decided_at), (
            select max(r.delivered_at) from relaybox.late_delivery r where r.stream_id = i.stream_id and r.after_place < f.place
        )) as delivered_at
        from relaybox.stream_log o join relaybox.decision d on d.hop_id = o.hop_id
        where o.stream_id = i.stream_id and d.last_place >= f.place
    ) t on true
    left join relaybox.dead_letter x on x.hop_id = i.hop_id and x.position = position_ and x.subscription_id is null
    left join relaybox.held h on h.hop_id = i.hop_id and h.position = position_
    left join lateral (
        select position_ as "position", d.decided_at, (
            select min(o.position) from relaybox.log o
            where o.hop_id = i.hop_id and o.position < position_ and (
                l.epoch > 0 and (o.sender, o.epoch, o.index) = (l.sender, l.epoch, l.index)
                or o.position >= position_ - s.message_id_window and o.message_id = l.message_id
            )
        ) as original
        from relaybox.decision d where d.hop_id = i.hop_id and position_ = any(d.duplicates)
        limit 1
    ) b on true
    left join relaybox.sender_state w on w.stream_id = i.stream_id and w.sender = l.sender and w.epoch = l.epoch and w.stalled_after < position_
        and position_ <= i.decided_position
    where n.hop = hop_name
$$;
