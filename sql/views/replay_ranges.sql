-- The ranges that second cursors read, one after the other: what backfills and people asked for. replayed_as is the second cursor.
create or replace view relaybox.replay_ranges with (security_barrier) as
select
    r.replay_range_id as replay, parent.subscription, n.subscription as replayed_as, r.first_place, r.last_place, r.asked_by, r.reason,
    r.begun_at, r.done_at, n.ended_at
from relaybox.replay_range r
join relaybox.subscription n on n.subscription_id = r.subscription_id
join relaybox.subscription parent on parent.subscription_id = n.replay_of;
