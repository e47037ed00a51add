-- The subscriptions of this store, replays included; stream positions are those of the slowest lane, lane_stream_positions those of each.
create or replace view relaybox.subscriptions with (security_barrier) as
select
    n.subscription, s.stream, n.topic, n.lanes, n.lane_by, n.first_stream_position, n.through_stream_position, parent.subscription as replay_of,
    n.rows_per_second,
    n.nack_limit, n.crash_limit, n.hold_sender, n.retry_seconds, n.lease_seconds, n.delayed, n.subscribed_at, n.subscribed_by,
    c.done_stream_position, c.lane_stream_positions, c.replaying, c.leased_lanes, c.moved_at,
    c.held_lanes, passed.message_count as delayed_messages,
    greatest(c.done_stream_position, least(n.through_stream_position, s.last_stream_position)) as last_stream_position,
    greatest(0, least(n.through_stream_position, s.last_stream_position) - c.done_stream_position) as stream_positions_behind,
    greatest(
        0,
        least(n.through_stream_position, s.first_kept_stream_position - 1)
        - greatest(c.done_stream_position, s.dropped_stream_position)
    ) as detached_stream_positions,
    (
        select count(*) from relaybox_internal.dead_letter d
        where d.subscription_id = n.subscription_id and d.state in ('open', 'redriving') and d.reason <> 'delayed'
    ) as dead_letters,
    array(
        select d.stream_position from relaybox_internal.dead_letter d
        where d.subscription_id = n.subscription_id and d.state in ('open', 'redriving') and d.reason <> 'delayed'
        order by d.stream_position
    ) as dead_letter_stream_positions,
    least(c.due_at, passed.due_at) as due_at
from relaybox_internal.subscription n
join relaybox_internal.stream s on s.stream_id = n.stream_id
left join relaybox_internal.subscription parent on parent.subscription_id = n.replay_of
join lateral (
    select
        min(k.done_stream_position) as done_stream_position, bool_or(k.done_stream_position < k.replay_stream_position) as replaying,
        max(k.moved_at) as moved_at,
        count(*) filter (
            where k.leased_until > clock_timestamp()
            and k.leased_until <= clock_timestamp() + make_interval(secs => n.lease_seconds)
        ) as leased_lanes,
        array_agg(k.done_stream_position order by k.lane) as lane_stream_positions,
        count(*) filter (where k.due_at > clock_timestamp()) as held_lanes,
        min(k.due_at) as due_at
    from relaybox_internal.lane_cursors k
    where k.subscription_id = n.subscription_id
) c on true
join lateral (
    select
        count(*) as message_count,
        min(d.due_at) as due_at
    from relaybox_internal.dead_letter d
    where s.has_delay and d.subscription_id = n.subscription_id and d.state = 'delayed'
) passed on true
where
    n.ended_at is null
    and (
        (select scope.sees_all from relaybox_internal.acting_role scope)
        or n.subscription_id in (
            select b.subscription_id from relaybox_internal.bound_subscriptions b
            where b.ended_at is null
        )
    );

comment on view relaybox.subscriptions is
'The open subscriptions of this store, second cursors of replays included. For each lane: '
'relaybox.lag.';
comment on column relaybox.subscriptions.subscription is 'Its name.';
comment on column relaybox.subscriptions.stream is 'The stream that it reads.';
comment on column relaybox.subscriptions.topic is
'The one topic that it reads; null: all of the stream.';
comment on column relaybox.subscriptions.lanes is 'Number of lanes.';
comment on column relaybox.subscriptions.lane_by is
'sender or key: what decides the lane of a message.';
comment on column relaybox.subscriptions.first_stream_position is
'First stream position that it reads.';
comment on column relaybox.subscriptions.through_stream_position is
'Last stream position that a second cursor reads; null: no end.';
comment on column relaybox.subscriptions.replay_of is
'The subscription that this second cursor replays; null: no second cursor.';
comment on column relaybox.subscriptions.rows_per_second is 'Limit of a replay; null: none.';
comment on column relaybox.subscriptions.nack_limit is
'Number of nacks after which a message becomes a dead letter.';
comment on column relaybox.subscriptions.crash_limit is
'Number of fetches without ack or nack after which messages are fetched in smaller pieces, to '
'find the one that kills its worker.';
comment on column relaybox.subscriptions.hold_sender is
'True: later messages of a sender wait behind its dead letter.';
comment on column relaybox.subscriptions.retry_seconds is 'How long a lane waits after a nack.';
comment on column relaybox.subscriptions.lease_seconds is 'How long a fetch belongs to its worker.';
comment on column relaybox.subscriptions.delayed is
'hold, pass or ignore: what becomes of the messages behind one that is not due.';
comment on column relaybox.subscriptions.subscribed_at is 'When it was made.';
comment on column relaybox.subscriptions.subscribed_by is
'The login that made it; counts for the quota of this login.';
comment on column relaybox.subscriptions.done_stream_position is
'Every lane has acknowledged up to here.';
comment on column relaybox.subscriptions.lane_stream_positions is
'For each lane: acknowledged up to here.';
comment on column relaybox.subscriptions.replaying is
'True: a lane went back and has not come forward again.';
comment on column relaybox.subscriptions.leased_lanes is 'Number of lanes that a worker has now.';
comment on column relaybox.subscriptions.moved_at is 'When any lane moved last.';
comment on column relaybox.subscriptions.last_stream_position is
'Newest stream position that it can read.';
comment on column relaybox.subscriptions.stream_positions_behind is
'Stream positions between done_stream_position and last_stream_position.';
comment on column relaybox.subscriptions.detached_stream_positions is
'Of these, stream positions whose messages are in detached files: relaybox attach brings them '
'back.';
comment on column relaybox.subscriptions.dead_letters is 'Number of its open dead letters.';
comment on column relaybox.subscriptions.dead_letter_stream_positions is 'Their stream positions.';
comment on column relaybox.subscriptions.held_lanes is
'Number of lanes that wait until a delayed message is due.';
comment on column relaybox.subscriptions.delayed_messages is
'Number of messages that were passed, since they were not due, and come when they are.';
comment on column relaybox.subscriptions.due_at is
'When the next delayed message is due, as the newest fetches found; null: none is known.';
