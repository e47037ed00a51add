-- The ranges that second cursors read, one after the other: what backfills and people asked for. replayed_as is the second cursor.
-- done_at is null while its consumers have not acknowledged the whole range.
create or replace view relaybox.replay_ranges with (security_barrier) as
select
    r.replay_range_id as replay, parent.subscription, n.subscription as replayed_as, r.first_place, r.last_place, r.asked_by, r.reason,
    r.begun_at, n.ended_at, coalesce(r.done_at, newest.done_at) as done_at
from relaybox.replay_range r
join relaybox.subscription n on n.subscription_id = r.subscription_id
join relaybox.subscription parent on parent.subscription_id = n.replay_of
left join lateral (
    -- the table knows when a cursor went on to its next range; of the newest one its lanes tell
    select max(c.moved_at) as done_at
    from relaybox.lane_cursors c
    where c.subscription_id = r.subscription_id and r.done_at is null
    having min(c.done_place) >= r.last_place
) newest on true;
