-- A locked lane's cursor after a fetch by a worker: what was fetched and not acknowledged comes
-- again, else redriven dead letters and passed messages that are due, else new messages. Its worker is null if there is nothing.
-- Writes dead letters, not the cursor. Raises RB034 if the next message is no longer kept, RB038 if
-- it is detached.
create or replace function relaybox_internal.choose_next(
    cursor_ relaybox_internal.cursor, subscription_ relaybox_internal.subscription,
    max_count bigint, worker_ text
)
returns relaybox_internal.cursor
language plpgsql volatile
as $$
declare
    asked_at timestamptz := clock_timestamp();
    stream relaybox_internal.stream;
begin
    if relaybox_internal.has_time_left(cursor_.wait_until, subscription_.retry_seconds)
        or cursor_.worker <> worker_
        and relaybox_internal.has_time_left(cursor_.leased_until, subscription_.lease_seconds)
    then
        cursor_.worker := null;
        return cursor_;
    end if;
    cursor_.wait_until := null;
    select * into stream from relaybox_internal.stream s
    where s.stream_id = subscription_.stream_id;
    if cursor_.redrive_stream_position is not null
        or cursor_.fetched_stream_position > cursor_.done_stream_position then
        if cursor_.redrive_stream_position is null then
            -- what was fetched long ago and never acknowledged
            perform relaybox_internal.refuse_detached(
                stream, cursor_.done_stream_position + 1,
                format('subscription %s, lane %s', subscription_.subscription, cursor_.lane)
            );
            if stream.has_expiry then
                perform relaybox_internal.set_aside_expired(cursor_, subscription_, worker_);
            end if;
        elsif stream.has_delay and stream.has_expiry then
            perform relaybox_internal.set_aside_expired_passed(cursor_, asked_at);
        end if;
        cursor_ := relaybox_internal.refetch(cursor_, subscription_, worker_);
        if cursor_.redrive_stream_position is not null
            or cursor_.fetched_stream_position > cursor_.done_stream_position then
            return relaybox_internal.lease_lane(cursor_, subscription_, worker_);
        end if;
    end if;
    cursor_.worker := null;
    cursor_.leased_until := null;
    if stream.has_delay then
        perform relaybox_internal.give_due_messages(cursor_, max_count, asked_at);
        if stream.has_expiry then
            perform relaybox_internal.set_aside_expired_passed(cursor_, asked_at);
        end if;
    end if;
    select max(redriving.stream_position) into cursor_.redrive_stream_position from (
        select d.stream_position from relaybox_internal.dead_letter d
        where d.subscription_id = subscription_.subscription_id and d.lane = cursor_.lane
            and d.state = 'redriving'
        order by d.stream_position
        limit max_count
    ) redriving;
    if cursor_.redrive_stream_position is not null then
        cursor_.fetch_count := 1;
        return relaybox_internal.lease_lane(cursor_, subscription_, worker_);
    end if;
    cursor_ := relaybox_internal.find_new_messages(
        cursor_, subscription_, stream, max_count, asked_at, worker_
    );
    if cursor_.fetched_stream_position > cursor_.done_stream_position then
        return relaybox_internal.lease_lane(cursor_, subscription_, worker_);
    end if;
    return cursor_;
end
$$;
