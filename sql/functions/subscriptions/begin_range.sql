-- Has a second cursor begin a range, and records the range; opens the cursor if `second` is null.
-- Returns the number of the range. Caller: holds the subscription. Raises RB030, RB039 as
-- open_replay() does. Locks the lanes of an open cursor.
create or replace function relaybox_internal.begin_range(
    subscription_ relaybox_internal.subscription, second relaybox_internal.subscription,
    cursor_name text, first_ bigint, last_ bigint, rows_per_second_ integer,
    reason_ text, asked_by_ text
)
returns bigint
language plpgsql volatile
as $$
declare
    replay bigint;
begin
    if second.subscription_id is null then
        second.subscription_id := relaybox_internal.open_replay(
            subscription_, cursor_name, first_, last_, rows_per_second_
        );
    else
        update relaybox_internal.subscription s set
            first_stream_position = first_, through_stream_position = last_,
            rows_per_second = rows_per_second_
        where s.subscription_id = second.subscription_id;
        update relaybox_internal.replay_range r set done_at = clock_timestamp()
        where r.subscription_id = second.subscription_id and r.done_at is null;
        for lane_ in 1..second.lanes loop
            perform relaybox_internal.move_cursor(relaybox_internal.begin_pass(
                relaybox_internal.lock_lane(second, lane_), first_, last_
            ));
        end loop;
    end if;
    insert into relaybox_internal.replay_range (
        subscription_id, first_stream_position, last_stream_position, asked_by, reason
    )
    values (second.subscription_id, first_, last_, array[asked_by_], reason_)
    returning replay_range_id into replay;
    return replay;
end
$$;
