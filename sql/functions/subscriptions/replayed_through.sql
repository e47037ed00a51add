-- The stream position through which every lane of a second cursor is done; null: it was closed.
create or replace function relaybox_internal.replayed_through(cursor_id integer) returns bigint
language sql stable
as $$
    select min(c.done_stream_position) from relaybox_internal.lane_cursors c
    where c.subscription_id = cursor_id
$$;
