-- Has a second cursor of a subscription read a range; opens the cursor if none has that name.
-- Ranges of one cursor never mix: a range begins when the one before it is read. Call again until
-- the state is not `waits`. state: begun; joined (this range is being read); done (it was read for
-- this asker); empty (nothing was delivered then). The live cursor stays. Locks the subscription.
-- pinned_id, pinned_at: the subscription that was approved (require_pinned()).
-- Raises RB031, RB034, RB036, RB041, RB043.
create or replace function relaybox_internal.ask_replay(
    subscription text, cursor_name text, start text, through text, reason text, asked_by text,
    rows_per_second integer default null,
    pinned_id integer default null, pinned_at timestamptz default null,
    out state text, out replay bigint,
    out first_stream_position bigint, out last_stream_position bigint,
    out message_count bigint, out byte_count bigint,
    out estimated_seconds double precision, out waits_for text
)
language plpgsql volatile
as $$
declare
    subscription_ relaybox_internal.subscription
    := relaybox_internal.subscription_named(ask_replay.subscription, gives_messages => true);
    second relaybox_internal.subscription;
begin
    perform relaybox_internal.require_reason(
        reason, 'a replay is asked for', 'Say why the messages are read again.'
    );
    perform relaybox_internal.require_rate(rows_per_second);
    perform relaybox_internal.require_length('the name of who asks', asked_by, 1000);
    perform relaybox_internal.require_replayable(subscription_, cursor_name);
    -- one asker at a time; other rows that name the subscription are not blocked
    perform from relaybox_internal.subscription s
    where s.subscription_id = subscription_.subscription_id for no key update;
    perform relaybox_internal.require_pinned(
        subscription_.subscription, ask_replay.pinned_id, ask_replay.pinned_at
    );
    perform from relaybox_internal.stream s
    where s.stream_id = subscription_.stream_id for key share;
    select b.first_stream_position, b.last_stream_position
    into first_stream_position, last_stream_position
    from relaybox_internal.stream_positions_between(subscription_.stream_id, start, through) b;
    if last_stream_position < first_stream_position then
        state := 'empty';
        return;
    end if;
    second := relaybox_internal.find_second_cursor(subscription_, cursor_name);
    select j.state, j.replay, j.waits_for into state, replay, waits_for
    from relaybox_internal.join_replay(
        second, first_stream_position, last_stream_position, asked_by
    ) j;
    if state is not null then
        return;
    end if;
    select
        e.message_count, e.byte_count,
        coalesce(e.message_count::double precision / rows_per_second, e.read_seconds)
    into message_count, byte_count, estimated_seconds
    from relaybox_internal.estimate_range(
        subscription_, first_stream_position, last_stream_position
    ) e;
    replay := relaybox_internal.begin_range(
        subscription_, second, cursor_name, first_stream_position, last_stream_position,
        rows_per_second, reason, asked_by
    );
    state := 'begun';
    perform relaybox_internal.record_action(
        subscription_.subscription_id, subscription_.subscription, 'replay', reason, jsonb_build_object(
            'as', cursor_name, 'start', start, 'through', through,
            'first_stream_position', first_stream_position,
            'last_stream_position', last_stream_position,
            'rows_per_second', rows_per_second, 'asked_by', asked_by
        )
    );
end
$$;
