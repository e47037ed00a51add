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
