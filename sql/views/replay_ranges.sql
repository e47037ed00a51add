-- The ranges that second cursors read, one after the other: what backfills and people asked for.
-- replayed_as is the second cursor. done_at is null while its consumers have not acknowledged the
-- whole range.
create or replace view relaybox.replay_ranges with (security_barrier) as
select
    r.replay_range_id as replay, parent.subscription, n.subscription as replayed_as, r.first_stream_position, r.last_stream_position, r.asked_by,
    r.reason,
    r.begun_at, n.ended_at, coalesce(r.done_at, newest.done_at) as done_at
from relaybox_internal.replay_range r
join relaybox_internal.subscription n on n.subscription_id = r.subscription_id
join relaybox_internal.subscription parent on parent.subscription_id = n.replay_of
left join lateral (
    -- the table knows when a cursor went on to its next range; of the newest one its lanes tell
    select max(c.moved_at) as done_at
    from relaybox_internal.lane_cursors c
    where c.subscription_id = r.subscription_id and r.done_at is null
    having min(c.done_stream_position) >= r.last_stream_position
) newest on true
where
    (select scope.sees_all from relaybox_internal.acting_role scope)
    or exists (
        select from relaybox_internal.bound_subscriptions b
        where b.subscription_id = r.subscription_id
    );

comment on view relaybox.replay_ranges is
'Ranges that second cursors read, one after the other: replays with second_cursor, and backfills '
'from Airflow.';
comment on column relaybox.replay_ranges.replay is 'Number of the range.';
comment on column relaybox.replay_ranges.subscription is 'The subscription that is replayed.';
comment on column relaybox.replay_ranges.replayed_as is
'The second cursor: the name to fetch from.';
comment on column relaybox.replay_ranges.first_stream_position is
'First stream position of the range.';
comment on column relaybox.replay_ranges.last_stream_position is
'Last stream position of the range.';
comment on column relaybox.replay_ranges.asked_by is
'Who asked for it, and those who joined: runs of Airflow, or logins.';
comment on column relaybox.replay_ranges.reason is 'Why.';
comment on column relaybox.replay_ranges.begun_at is 'When it was asked for.';
comment on column relaybox.replay_ranges.ended_at is
'When the second cursor was closed; null: it is open.';
comment on column relaybox.replay_ranges.done_at is
'When the whole range was acknowledged; null: not yet.';
