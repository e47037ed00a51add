-- Who still needs what of a log: the first position that each holder needs.
-- kind: hop (a further one has not settled it), subscription (not acknowledged), dead letter (open), held, stalled, undecided (by the
-- log's stream), window (replay; 0 where none is set: everything is kept), deduplication (message_id_window), newest (the
-- segments of the last position and of the last place stay). detachable: lanes of a subscription that have stood still for longer than
-- detach_after_seconds although something waits for them, in a log whose route detaches; an attach starts that time anew.
create or replace function relaybox.log_holders(log_id integer)
returns table (kind text, holder text, needs_from bigint, since timestamptz, policy text, detachable boolean)
language sql stable
as $$
    with here as (
        select i.*, s.stream_id, s.stream, s.last_place, s.message_id_window, l.origin, l.decided_position, l.decided_batch
        from relaybox.hop_in i
        left join relaybox.stream_log l on l.hop_id = i.hop_id
        left join relaybox.stream s on s.stream_id = l.stream_id
        where i.hop_id = log_id
    ), waiting as (
        select e.sender, e.stalled_after + 1 as needs_from, e.moved_at
        from here h join relaybox.sender_state e on e.stream_id = h.stream_id and e.origin = h.origin and e.stalled_after is not null
    ), replayable as (
        -- all logs of a stream are kept as long as the one that is kept longest: their places are one sequence
        select case when bool_or(i.replay_window_seconds is null) then null else max(i.replay_window_seconds) end as seconds
        from here h join relaybox.stream_log l on l.stream_id = h.stream_id join relaybox.hop_in i on i.hop_id = l.hop_id
    ), detaching as (
        select h.detach_after_seconds as after_seconds, (
            select max(d.moved_at) from relaybox.stream_log l join relaybox.detached_segment d on d.hop_id = l.hop_id
            where l.stream_id = h.stream_id and d.state = 'attached'
        ) as attached_at
        from here h where h.stopped_consumer = 'detach'
    ), behind as (
        select
            n.subscription, stands.has_stopped, relaybox.first_position_after(h.stream_id, log_id, min(c.done_place)) as needs_from,
            (
                select min(k.decided_at) from relaybox.stream_log g join relaybox.decision k on k.hop_id = g.hop_id
                where g.stream_id = h.stream_id and k.last_place > min(c.done_place)
            ) as since
        from here h
        join relaybox.subscription n on n.stream_id = h.stream_id and n.ended_at is null
        join relaybox.lane_cursors c on c.subscription_id = n.subscription_id
        cross join lateral (
            select exists (
                select from detaching a where greatest(c.moved_at, c.leased_until, a.attached_at, (
                    select min(f.decided_at)
                    from relaybox.stream_log g
                    join lateral (
                        select e.decided_at from relaybox.decision e where e.hop_id = g.hop_id and e.last_place > c.done_place
                        order by e.last_place limit 1
                    ) f on true
                    where g.stream_id = h.stream_id
                )) < now() - make_interval(secs => a.after_seconds)
            ) as has_stopped
        ) stands
        -- a second cursor that came to its end needs nothing more
        where (c.done_place >= n.through_place) is not true
        group by n.subscription_id, n.subscription, h.stream_id, stands.has_stopped
    )
    select 'newest', h.hop, least(h.published_position, relaybox.first_position_after(h.stream_id, log_id, h.last_place - 1)), null::timestamptz, null::text, false
    from here h
    union all
    select 'undecided', h.hop, coalesce(h.decided_position, 0) + 1,
        (select a.published_at from relaybox.arrival a where a.hop_id = h.hop_id and a.batch > coalesce(h.decided_batch, 0) order by a.batch limit 1),
        null, false
    from here h where h.decided_position is distinct from h.published_position
    union all
    (
        select 'held', e.sender, d.position, d.held_at, null, false
        from here h join relaybox.held d on d.hop_id = h.hop_id join relaybox.sender_state e on e.sender_id = d.sender_id
        order by d.position limit 1
    )
    union all
    (select 'stalled', w.sender, w.needs_from, w.moved_at, null, false from waiting w order by w.needs_from limit 1)
    union all
    select 'hop', o.hop,
        least(r.through_position + 1, (
            select b.reads_after + 1 from relaybox.batch b
            where b.hop = o.hop and o.resend_through > 0 and b.batch > o.resend_after order by b.batch limit 1
        )),
        (select a.published_at from relaybox.arrival a where a.hop_id = log_id and a.last_position > r.through_position order by a.batch limit 1),
        o.stopped_consumer, false
    from here h
    join relaybox.hop_out o on o.reads_log = h.hop_id and o.retired_at is null
    cross join lateral relaybox.settled_reading(o.hop) r
    where r.through_position < h.published_position or o.resend_through > 0
    union all
    select 'subscription', b.subscription, b.needs_from, b.since, h.stopped_consumer, b.has_stopped from behind b cross join here h
    union all
    (
        select 'dead letter', format('letter %s', d.dead_letter_id), d.position, d.first_at, null, false
        from relaybox.dead_letter d where d.hop_id = log_id and d.state in ('open', 'redriving') order by d.position limit 1
    )
    union all
    select 'window', h.hop,
        case
            when r.seconds is null then 0
            else least(
                relaybox.first_position_after(h.stream_id, log_id, least(
                    (
                        select coalesce(max(k.last_place), 0) from relaybox.stream_log g join relaybox.decision k on k.hop_id = g.hop_id
                        where g.stream_id = h.stream_id and k.decided_at <= now() - make_interval(secs => r.seconds)
                    ),
                    (
                        select min(f.after_place) from relaybox.late_delivery f
                        where f.stream_id = h.stream_id and f.delivered_at > now() - make_interval(secs => r.seconds)
                    )
                )),
                (
                    select min(a.first_position) from relaybox.arrival a
                    where a.hop_id = log_id and a.published_at > now() - make_interval(secs => r.seconds)
                )
            )
        end, null, null, false
    from here h cross join replayable r
    union all
    select 'deduplication', h.stream,
        least(h.decided_position + 1, (select min(w.needs_from) from waiting w)) - h.message_id_window, null, null, false
    from here h where h.message_id_window > 0
$$;
