-- Where each lane of each subscription stands: of its cursor, the newest version. Its columns are
-- those of relaybox_internal.cursor. The first two are the lane's own, not the cursor's: a
-- condition on a column from below the LIMIT would look up every lane of the store.
create or replace view relaybox_internal.lane_cursors as
select
    l.subscription_id, l.lane, newest.version, newest.done_stream_position, newest.fetched_stream_position, newest.redrive_stream_position,
    newest.fetch_count,
    newest.suspect_stream_position, newest.suspect_rows, newest.worker, newest.leased_until, newest.wait_until, newest.replay_stream_position,
    newest.rate_from,
    newest.moved_at, newest.token, newest.fetched_in, newest.first_fetched_at, newest.due_at
from relaybox_internal.lane l
cross join lateral (
    select c.* from relaybox_internal.cursor c
    where c.subscription_id = l.subscription_id and c.lane = l.lane
    order by c.version desc
    limit 1
) newest;

comment on view relaybox_internal.lane_cursors is
'The newest cursor of each lane of each subscription.';
