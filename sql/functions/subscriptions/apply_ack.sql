-- A locked lane's cursor after everything up to a stream position was acknowledged. Writes its dead
-- letters and failed attempts, not the cursor. Caller: lock_fetch(). Raises RB033 for a stream
-- position that was not fetched.
create or replace function relaybox_internal.apply_ack(
    cursor_ relaybox_internal.cursor, subscription_ relaybox_internal.subscription,
    stream_position_ bigint
)
returns relaybox_internal.cursor
language plpgsql volatile
as $$
declare
    rest bigint; -- a stream position of the fetch that is not acknowledged; null: none
begin
    perform relaybox_internal.require_fetched(cursor_, subscription_, stream_position_);
    if cursor_.redrive_stream_position is not null then
        -- one that was passed leaves no trace, unless a replay put the cursor back before it
        delete from relaybox_internal.dead_letter d
        where d.subscription_id = cursor_.subscription_id and d.lane = cursor_.lane
            and d.state = 'redriving' and d.reason = 'delayed'
            and d.stream_position <= least(stream_position_, cursor_.done_stream_position);
        update relaybox_internal.dead_letter d set
            state = 'redriven', resolved_at = clock_timestamp(),
            given_ahead = d.stream_position > cursor_.done_stream_position
        where d.subscription_id = cursor_.subscription_id and d.lane = cursor_.lane
            and d.state = 'redriving' and d.stream_position <= stream_position_;
        select min(d.stream_position) into rest from relaybox_internal.dead_letter d
        where d.subscription_id = cursor_.subscription_id and d.lane = cursor_.lane
            and d.state = 'redriving' and d.stream_position <= cursor_.redrive_stream_position;
        if rest is null then
            cursor_.redrive_stream_position := null;
        end if;
    else
        cursor_.done_stream_position := stream_position_;
        rest := case
            when cursor_.fetched_stream_position > stream_position_
                then cursor_.fetched_stream_position
        end;
        if cursor_.done_stream_position >= cursor_.suspect_stream_position then
            cursor_.suspect_stream_position := 0;
            cursor_.suspect_rows := null;
        end if;
    end if;
    delete from relaybox_internal.failed_attempt f
    where f.subscription_id = cursor_.subscription_id and f.lane = cursor_.lane
        and f.stream_position <= stream_position_;
    if rest is null then
        cursor_.worker := null;
        cursor_.leased_until := null;
        cursor_.fetch_count := 0;
    else
        cursor_.leased_until
        := clock_timestamp() + make_interval(secs => subscription_.lease_seconds);
        cursor_.fetch_count := 1;
    end if;
    return cursor_;
end
$$;
