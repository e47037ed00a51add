-- Has a second cursor of a subscription read a range, made if there is none of that name. Ranges of a cursor never mix: the next one begins when
-- the one before it is read. To be called until the state is not `waits`: begun, joined (this range is being read), done (it was read for this
-- asker), empty (nothing was delivered then). The live cursor is not touched. Holds the subscription. Raises RB031, RB034, RB036.
create or replace function relaybox_internal.ask_replay(
    subscription text, cursor_name text, start text, through text, reason text, asked_by text, rows_per_second integer default null,
    out state text, out replay bigint, out first_stream_position bigint, out last_stream_position bigint, out message_count bigint,
    out byte_count bigint,
    out estimated_seconds double precision, out waits_for text
)
language plpgsql volatile
as $$
declare
    subscription_ relaybox_internal.subscription := relaybox_internal.subscription_named(ask_replay.subscription);
    second relaybox_internal.subscription;
    newest relaybox_internal.replay_range;
begin
    perform relaybox_internal.require_reason(reason, 'a replay is asked for', 'Say why the messages are read again.');
    perform relaybox_internal.require_rate(rows_per_second);
    perform relaybox_internal.require_length('the name of who asks', asked_by, 1000);
    if cursor_name ~ '^[a-z0-9_.-]{1,60}$' is not true then
        raise exception using errcode = 'RB036', message = format('the name %L of a second cursor must be 1 to 60 of a-z 0-9 _ . -',
        left(cursor_name, 70));
    end if;
    if subscription_.replay_of is not null then
        raise exception using errcode = 'RB036', message = format('subscription %s is a replay itself, and a replay is not replayed',
        subscription_.subscription),
            hint = 'Replay the subscription that it belongs to.';
    end if;
    -- one asker at a time; the rows that name the subscription may go on
    perform from relaybox_internal.subscription s where s.subscription_id = subscription_.subscription_id for no key update;
    perform from relaybox_internal.stream s where s.stream_id = subscription_.stream_id for key share;
    select b.first_stream_position, b.last_stream_position into first_stream_position, last_stream_position
        from relaybox_internal.stream_positions_between(subscription_.stream_id, start, through) b;
    if last_stream_position < first_stream_position then
        state := 'empty';
        return;
    end if;
    select * into second from relaybox_internal.subscription s where s.subscription = cursor_name and s.ended_at is null;
    if second.subscription_id is not null and second.replay_of is distinct from subscription_.subscription_id then
        raise exception using errcode = 'RB036',
            message = format('subscription %s exists, and is no second cursor of %s', cursor_name, subscription_.subscription),
            hint = 'Give the replay a name that is free.';
    end if;
    select * into newest from relaybox_internal.replay_range r
    where r.subscription_id = second.subscription_id order by r.replay_range_id desc limit 1;
    if relaybox_internal.replayed_through(second.subscription_id) < second.through_stream_position then
        state := case
            when (newest.first_stream_position, newest.last_stream_position) = (first_stream_position, last_stream_position)
                and second.through_stream_position = last_stream_position then 'joined'
            else 'waits'
        end;
        waits_for := case when state = 'waits' then format(
            'stream positions %s to %s, asked for by %s, done through %s', second.first_stream_position, second.through_stream_position,
            coalesce(newest.asked_by[1], second.subscribed_by), relaybox_internal.replayed_through(second.subscription_id)
        ) end;
        replay := newest.replay_range_id;
        if state = 'joined' then
            update relaybox_internal.replay_range r set asked_by = array_append(r.asked_by, ask_replay.asked_by)
            where r.replay_range_id = replay and ask_replay.asked_by <> all(r.asked_by);
        end if;
        return;
    end if;
    select r.replay_range_id into replay from relaybox_internal.replay_range r
    where r.subscription_id = second.subscription_id and ask_replay.asked_by = any(r.asked_by)
        and (r.first_stream_position, r.last_stream_position) = (ask_replay.first_stream_position, ask_replay.last_stream_position)
    order by r.replay_range_id desc limit 1;
    if found then
        state := 'done';
        return;
    end if;
    select e.message_count, e.byte_count, coalesce(e.message_count::double precision / ask_replay.rows_per_second, e.read_seconds)
    into message_count, byte_count, estimated_seconds
    from relaybox_internal.estimate_range(subscription_, first_stream_position, last_stream_position) e;
    if second.subscription_id is null then
        second.subscription_id := relaybox_internal.open_replay(subscription_, cursor_name, first_stream_position, last_stream_position, rows_per_second);
    else
        update relaybox_internal.subscription s
        set first_stream_position = ask_replay.first_stream_position, through_stream_position = ask_replay.last_stream_position,
        rows_per_second = ask_replay.rows_per_second
        where s.subscription_id = second.subscription_id;
        update relaybox_internal.replay_range r set done_at = clock_timestamp() where r.subscription_id = second.subscription_id and r.done_at is null;
        for lane_ in 1..second.lanes loop
            perform relaybox_internal.move_cursor(relaybox_internal.begin_pass(relaybox_internal.lock_lane(second, lane_), first_stream_position, last_stream_position));
        end loop;
    end if;
    state := 'begun';
    insert into relaybox_internal.replay_range (subscription_id, first_stream_position, last_stream_position, asked_by, reason)
    values (second.subscription_id, first_stream_position, last_stream_position, array[ask_replay.asked_by], ask_replay.reason)
    returning replay_range_id into replay;
    perform relaybox_internal.record_action(subscription_.subscription, 'replay', reason, jsonb_build_object(
        'as', cursor_name, 'start', start, 'through', through, 'first_stream_position', first_stream_position, 'last_stream_position',
        last_stream_position,
        'rows_per_second', rows_per_second, 'asked_by', ask_replay.asked_by
    ));
end
$$;
