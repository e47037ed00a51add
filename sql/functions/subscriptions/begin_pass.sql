-- A locked lane's cursor put before a range that it reads again. Dead letters of the range that an
-- earlier pass redrove ahead of the cursor come again too. Writes these, not the cursor.
-- Caller: holds the lane.
create or replace function relaybox_internal.begin_pass(
    cursor_ relaybox_internal.cursor, first_stream_position bigint, last_stream_position bigint
)
returns relaybox_internal.cursor
language plpgsql volatile
as $$
begin
    update relaybox_internal.dead_letter d set given_ahead = false
    where d.subscription_id = cursor_.subscription_id and d.lane = cursor_.lane and d.given_ahead
        and d.stream_position between begin_pass.first_stream_position
        and begin_pass.last_stream_position;
    cursor_ := relaybox_internal.reset_cursor(cursor_, begin_pass.first_stream_position - 1);
    cursor_.replay_stream_position := begin_pass.last_stream_position;
    cursor_.rate_from := clock_timestamp();
    return cursor_;
end
$$;
