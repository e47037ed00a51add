-- Opens a second cursor of a subscription for a range. Caller: wrote down why. Raises RB030 if the name was taken meanwhile,
-- RB039 as subscribe does.
create or replace function relaybox.open_replay(
    known relaybox.subscription, name text, first_place_ bigint, last_place_ bigint, rows_per_second_ integer
)
returns integer
language plpgsql volatile
as $$
declare
    made integer;
begin
    begin
        insert into relaybox.subscription (
            subscription, stream_id, topic, lanes, lane_by, lane_hash, first_place, through_place, replay_of, rows_per_second,
            nack_limit, crash_limit, hold_sender, retry_seconds, lease_seconds
        )
        values (
            name, known.stream_id, known.topic, known.lanes, known.lane_by, known.lane_hash, first_place_, last_place_, known.subscription_id,
            rows_per_second_, known.nack_limit, known.crash_limit, known.hold_sender, known.retry_seconds, known.lease_seconds
        )
        returning subscription_id into made;
    exception when unique_violation then
        raise exception using errcode = 'RB030', message = format('subscription %s exists in this store: a second cursor needs a free name', name),
            hint = 'Ask for the replay again.';
    end;
    perform relaybox.require_quota(name);
    perform relaybox.open_lanes(made, known.lanes, first_place_, last_place_);
    return made;
end
$$;
