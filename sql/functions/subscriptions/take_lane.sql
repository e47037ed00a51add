-- Leases a lane with messages to a worker and returns its cursor, or the cursor of a lane that has
-- none: then its worker is null. Acknowledges first, if asked to. Locks the lane of the acknowledged
-- fetch and the named lane, and waits for them. Without a named lane it tries the free lanes one
-- after the other, and passes over those that another transaction holds. Each lock lasts until the
-- transaction ends, also of a lane without messages. Raises RB033 and RB035 as lock_fetch() and
-- apply_ack(), RB035 for a named lane that another worker has leased, RB031 and RB036 as
-- lock_lane(), RB034 and RB038 as choose_next(), 40001 as move_cursor().
create or replace function relaybox_internal.take_lane(
    subscription_ relaybox_internal.subscription, max_count integer,
    acked_stream_position bigint, acked_token text, only_lane integer, worker_ text
)
returns relaybox_internal.cursor
language plpgsql volatile
as $$
declare
    cursor_ relaybox_internal.cursor;
    chosen relaybox_internal.cursor;
    candidate integer;
begin
    if acked_stream_position is not null then
        cursor_ := relaybox_internal.lock_fetch(
            subscription_, acked_token,
            'select * from relaybox.fetch(''SUBSCRIPTION'', COUNT, STREAM_POSITION, ''TOKEN'').'
        );
        cursor_ := relaybox_internal.apply_ack(cursor_, subscription_, acked_stream_position);
        -- the token shows that the rest of the fetch is this worker's
        cursor_.worker := case when cursor_.worker is not null then worker_ end;
        if subscription_.lanes = 1 or cursor_.lane = only_lane then
            chosen := relaybox_internal.choose_next(cursor_, subscription_, max_count, worker_);
            perform relaybox_internal.move_cursor(chosen);
            return chosen;
        end if;
        perform relaybox_internal.move_cursor(cursor_);
    end if;
    if only_lane is not null then
        cursor_ := relaybox_internal.lock_lane(subscription_, only_lane);
        if cursor_.worker <> worker_
            and relaybox_internal.has_time_left(cursor_.leased_until, subscription_.lease_seconds)
        then
            raise exception using errcode = 'RB035',
                message = format(
                    'subscription %s, lane %s is leased to worker %s until %s',
                    subscription_.subscription, cursor_.lane, cursor_.worker, cursor_.leased_until
                ),
                hint = 'Fetch without naming a lane to get one that is free.';
        end if;
        chosen := relaybox_internal.choose_next(cursor_, subscription_, max_count, worker_);
        if chosen is distinct from cursor_ then
            perform relaybox_internal.move_cursor(chosen);
        end if;
        return chosen;
    end if;
    for candidate in select f.lane from relaybox_internal.lanes_for(subscription_, worker_) f loop
        perform from relaybox_internal.lane l
        where l.subscription_id = subscription_.subscription_id and l.lane = candidate
        for update skip locked;
        if found then
            cursor_ := relaybox_internal.lock_lane(subscription_, candidate);
            -- asked again: lanes_for() read the lane before it was locked
            if cursor_.worker is null or cursor_.worker = worker_
                or not relaybox_internal.has_time_left(cursor_.leased_until, subscription_.lease_seconds)
            then
                chosen := relaybox_internal.choose_next(cursor_, subscription_, max_count, worker_);
                if chosen is distinct from cursor_ then
                    perform relaybox_internal.move_cursor(chosen);
                end if;
                if chosen.worker is not null then
                    return chosen;
                end if;
            end if;
        end if;
    end loop;
    return null;
end
$$;
