-- Whether a second cursor already reads or has read a range for an asker. state: joined (it reads
-- this range: the asker is recorded), waits (it reads another range: waits_for), done (it has read
-- this range for this asker); null: the range can begin. Caller: holds the subscription.
create or replace function relaybox_internal.join_replay(
    second relaybox_internal.subscription,
    first_stream_position bigint, last_stream_position bigint, asked_by text,
    out state text, out replay bigint, out waits_for text
)
language plpgsql volatile
as $$
declare
    newest relaybox_internal.replay_range;
    done_through bigint := relaybox_internal.replayed_through(second.subscription_id);
begin
    if done_through < second.through_stream_position then
        select * into newest from relaybox_internal.replay_range r
        where r.subscription_id = second.subscription_id
        order by r.replay_range_id desc limit 1;
        replay := newest.replay_range_id;
        if (newest.first_stream_position, newest.last_stream_position)
            = (first_stream_position, last_stream_position)
            and second.through_stream_position = last_stream_position then
            state := 'joined';
            update relaybox_internal.replay_range r
            set asked_by = array_append(r.asked_by, join_replay.asked_by)
            where r.replay_range_id = replay and join_replay.asked_by <> all(r.asked_by);
            return;
        end if;
        state := 'waits';
        waits_for := format(
            'stream positions %s to %s, asked for by %s, done through %s',
            second.first_stream_position, second.through_stream_position,
            coalesce(newest.asked_by[1], second.subscribed_by), done_through
        );
        return;
    end if;
    select 'done', r.replay_range_id into state, replay
    from relaybox_internal.replay_range r
    where r.subscription_id = second.subscription_id
        and join_replay.asked_by = any(r.asked_by)
        and r.first_stream_position = join_replay.first_stream_position
        and r.last_stream_position = join_replay.last_stream_position
    order by r.replay_range_id desc limit 1;
end
$$;
