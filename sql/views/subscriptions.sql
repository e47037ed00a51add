-- The subscriptions of this store, replays included; places are those of the slowest lane, lane_places those of each.
create or replace view relaybox.subscriptions with (security_barrier) as
select
    n.subscription, s.stream, n.topic, n.lanes, n.lane_by, n.first_place, n.through_place, parent.subscription as replay_of, n.rows_per_second,
    n.nack_limit, n.crash_limit, n.hold_sender, n.retry_seconds, n.lease_seconds, n.subscribed_at, n.subscribed_by,
    c.done_place, c.lane_places, c.replaying, c.leased_lanes, c.moved_at,
    greatest(c.done_place, least(n.through_place, s.last_place)) as last_place,
    greatest(0, least(n.through_place, s.last_place) - c.done_place) as places_behind,
    greatest(0, least(n.through_place, s.first_kept_place - 1) - greatest(c.done_place, s.dropped_place)) as detached_places,
    (
        select count(*) from relaybox.dead_letter d
        where d.subscription_id = n.subscription_id and d.state in ('open', 'redriving')
    ) as dead_letters,
    array(
        select d.place from relaybox.dead_letter d
        where d.subscription_id = n.subscription_id and d.state in ('open', 'redriving')
        order by d.place
    ) as dead_letter_places
from relaybox.subscription n
join relaybox.stream s on s.stream_id = n.stream_id
left join relaybox.subscription parent on parent.subscription_id = n.replay_of
join lateral (
    select
        min(k.done_place) as done_place, bool_or(k.done_place < k.replay_place) as replaying, max(k.moved_at) as moved_at,
        count(*) filter (where k.leased_until > clock_timestamp()) as leased_lanes,
        array_agg(k.done_place order by k.lane) as lane_places
    from relaybox.lane_cursors k
    where k.subscription_id = n.subscription_id
) c on true
where n.ended_at is null;

comment on view relaybox.subscriptions is
'The open subscriptions of this store, second cursors of replays included. For each lane: relaybox.lag.';
comment on column relaybox.subscriptions.subscription is 'Its name.';
comment on column relaybox.subscriptions.stream is 'The stream that it reads.';
comment on column relaybox.subscriptions.topic is 'The one topic that it reads; null: all of the stream.';
comment on column relaybox.subscriptions.lanes is 'Number of lanes.';
comment on column relaybox.subscriptions.lane_by is 'sender or key: what decides the lane of a message.';
comment on column relaybox.subscriptions.first_place is 'First place that it reads.';
comment on column relaybox.subscriptions.through_place is 'Last place that a second cursor reads; null: no end.';
comment on column relaybox.subscriptions.replay_of is 'The subscription that this second cursor replays; null: no second cursor.';
comment on column relaybox.subscriptions.rows_per_second is 'Limit of a replay; null: none.';
comment on column relaybox.subscriptions.nack_limit is 'Number of nacks after which a message becomes a dead letter.';
comment on column relaybox.subscriptions.crash_limit is
'Number of fetches without ack or nack after which messages are fetched in smaller pieces, to find the one that kills its worker.';
comment on column relaybox.subscriptions.hold_sender is 'True: later messages of a sender wait behind its dead letter.';
comment on column relaybox.subscriptions.retry_seconds is 'How long a lane waits after a nack.';
comment on column relaybox.subscriptions.lease_seconds is 'How long a fetch belongs to its worker.';
comment on column relaybox.subscriptions.subscribed_at is 'When it was made.';
comment on column relaybox.subscriptions.subscribed_by is 'The login that made it; counts for the quota of this login.';
comment on column relaybox.subscriptions.done_place is 'Every lane has acknowledged up to here.';
comment on column relaybox.subscriptions.lane_places is 'For each lane: acknowledged up to here.';
comment on column relaybox.subscriptions.replaying is 'True: a lane went back and has not come forward again.';
comment on column relaybox.subscriptions.leased_lanes is 'Number of lanes that a worker has now.';
comment on column relaybox.subscriptions.moved_at is 'When any lane moved last.';
comment on column relaybox.subscriptions.last_place is 'Newest place that it can read.';
comment on column relaybox.subscriptions.places_behind is 'Places between done_place and last_place.';
comment on column relaybox.subscriptions.detached_places is
'Of these, places whose messages are in detached files: relaybox attach brings them back.';
comment on column relaybox.subscriptions.dead_letters is 'Number of its open dead letters.';
comment on column relaybox.subscriptions.dead_letter_places is 'Their places.';
