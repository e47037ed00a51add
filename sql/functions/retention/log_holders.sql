-- The holders of a log, and the first position that each needs. kind: hop (a later hop has not
-- settled it), subscription (not acknowledged), dead letter (open), delayed message (passed, and not
-- acknowledged), window (replay; 0: none is set,
-- everything is kept), deduplication (message_id_window); of the log's stream: held, stalled,
-- undecided, newest (the segments of the last position and of the last stream position stay).
-- detachable: the holder has stopped, and its route detaches what it needs.
create or replace function relaybox_internal.log_holders(log_id_ integer)
returns table (
    kind text, holder text, needs_from bigint, since timestamptz, policy text, detachable boolean
)
language sql stable
as $$
    select h.kind, h.holder, h.needs_from, h.since, null::text, false
    from relaybox_internal.list_stream_holders(log_id_) h
    union all
    select
        'hop', o.hop,
        least(settled.through_position + 1, (
            select b.reads_after + 1 from relaybox_internal.batch b
            where b.hop = o.hop and o.resend_through > 0 and b.batch > o.resend_after
            order by b.batch limit 1
        )),
        (
            select a.published_at from relaybox_internal.arrival a
            where a.log_id = log_id_ and a.last_position > settled.through_position
            order by a.batch limit 1
        ),
        o.stopped_consumer, false
    from relaybox_internal.hop_in i
    join relaybox_internal.hop_out o on o.reads_log = i.log_id and o.retired_at is null
    cross join lateral relaybox_internal.settled_reading(o.hop) settled
    where i.log_id = log_id_
        and (settled.through_position < i.published_position or o.resend_through > 0)
    union all
    select 'subscription', s.subscription, s.needs_from, s.since, s.policy, s.has_stopped
    from relaybox_internal.list_subscription_holders(log_id_) s
    union all
    (
        select
            'dead letter', d.dead_letter_id::text, d.log_position, d.first_at,
            null, false
        from relaybox_internal.dead_letter d
        where d.log_id = log_id_ and d.state in ('open', 'redriving') and d.reason <> 'delayed'
        order by d.log_position limit 1
    )
    union all
    (
        select
            'delayed message', format('%s of subscription %s', d.dead_letter_id, s.subscription),
            d.log_position, d.first_at, null, false
        from relaybox_internal.dead_letter d
        join relaybox_internal.subscription s on s.subscription_id = d.subscription_id
        where d.log_id = log_id_ and d.state in ('redriving', 'delayed') and d.reason = 'delayed'
        order by d.log_position limit 1
    )
    union all
    select 'window', i.hop, relaybox_internal.replay_window_from(log_id_), null, null, false
    from relaybox_internal.hop_in i where i.log_id = log_id_
    union all
    select
        'deduplication', s.stream,
        least(l.decided_position + 1, (
            select min(e.stalled_after) + 1 from relaybox_internal.sender_state e
            where e.stream_id = l.stream_id and e.origin = l.origin and e.stalled_after is not null
        )) - s.message_id_window,
        null, null, false
    from relaybox_internal.stream_log l
    join relaybox_internal.stream s on s.stream_id = l.stream_id
    where l.log_id = log_id_ and s.message_id_window > 0
$$;
