-- Refuses a lane whose next stream position is below the first one that its stream keeps. Raises
-- RB038 if its message is detached, else RB034.
create or replace function relaybox_internal.refuse_dropped(
    lane_cursor relaybox_internal.cursor, subscription relaybox_internal.subscription,
    stream relaybox_internal.stream
)
returns void
language plpgsql stable
as $$
declare
    lane_name text := format(
        'subscription %s, lane %s', subscription.subscription, lane_cursor.lane
    );
begin
    perform relaybox_internal.refuse_detached(
        stream, lane_cursor.done_stream_position + 1, lane_name
    );
    raise exception using errcode = 'RB034',
        message = format(
            '%s: stream position %s comes next and is no longer kept; the first one is %s',
            lane_name, lane_cursor.done_stream_position + 1, stream.first_kept_stream_position
        ),
        hint = 'The missing messages can''t be read here any more. To go on with what is kept, '
            || 'unsubscribe and subscribe anew at ''earliest''.';
end
$$;
