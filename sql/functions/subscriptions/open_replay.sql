-- Opens a second cursor of a subscription for a range, and returns its number. Caller: records why.
-- Raises RB030 if the name was taken meanwhile, RB039 as subscribe() does.
create or replace function relaybox_internal.open_replay(
    subscription_ relaybox_internal.subscription, name text,
    first_stream_position_ bigint, last_stream_position_ bigint, rows_per_second_ integer
)
returns integer
language plpgsql volatile
as $$
declare
    made integer;
begin
    begin
        insert into relaybox_internal.subscription (
            subscription, stream_id, topic, lanes, lane_by, lane_hash, first_stream_position,
            through_stream_position, replay_of, rows_per_second,
            nack_limit, crash_limit, hold_sender, retry_seconds, lease_seconds, delayed
        )
        values (
            name, subscription_.stream_id, subscription_.topic, subscription_.lanes,
            subscription_.lane_by, subscription_.lane_hash, first_stream_position_,
            last_stream_position_, subscription_.subscription_id, rows_per_second_,
            subscription_.nack_limit, subscription_.crash_limit, subscription_.hold_sender,
            subscription_.retry_seconds, subscription_.lease_seconds, 'ignore'
        )
        returning subscription_id into made;
    exception when unique_violation then
        raise exception using errcode = 'RB030',
            message = format(
                'subscription %s exists in this store: a second cursor needs a free name', name
            ),
            hint = 'Ask for the replay again.';
    end;
    perform relaybox_internal.require_quota(name);
    perform relaybox_internal.open_lanes(
        made, subscription_.lanes, first_stream_position_, last_stream_position_
    );
    return made;
end
$$;
