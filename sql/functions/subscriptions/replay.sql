-- Reads again. second_cursor false: the subscription's lanes go back to start, and come forward again from there. True: a second cursor is
-- opened for start to through, under the name that is returned; the live cursor stays. start and through: earliest, latest, a stream position,
-- a time. dry_run only counts, and locks no row. Else it holds the subscription, and the lanes that it moves. A range without a stream position
-- changes nothing: the counts are 0, replayed_as is null, and a NOTICE says so.
-- Raises RB031, RB034 no longer kept, RB038 detached, RB036 (no reason, no such start, a time in the future).
create or replace function relaybox.replay(
    subscription text, start text, reason text, through text default null, second_cursor boolean default false,
    rows_per_second integer default null, dry_run boolean default false,
    out replayed_as text, out first_stream_position bigint, out last_stream_position bigint, out message_count bigint, out byte_count bigint,
    out estimated_seconds double precision
)
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
as $$
declare
    subscription_ relaybox_internal.subscription := relaybox_internal.subscription_named(replay.subscription);
    lane_ integer;
    cursor_ relaybox_internal.cursor;
begin
    perform relaybox_internal.require_reason(reason, 'a replay is asked for', 'replay(subscription, start, ''why'')');
    perform relaybox_internal.require_rate(rows_per_second);
    if subscription_.replay_of is not null or (through is not null and not second_cursor) then
        raise exception using errcode = 'RB036',
            message = case when subscription_.replay_of is null then 'only a replay with a second cursor has an end' else 'a replay is not ' ||
                'replayed' end,
            hint = case when subscription_.replay_of is null then 'Give second_cursor => true (relaybox replay: --second-cursor), or no ' ||
                'end.' else 'Replay the subscription itself.' end;
    end if;
    if not dry_run then
        -- one replay after the other, and the subscription before its lanes
        perform from relaybox_internal.subscription s where s.subscription_id = subscription_.subscription_id for no key update;
        perform from relaybox_internal.stream s where s.stream_id = subscription_.stream_id for key share;
    end if;
    select b.first_stream_position, b.last_stream_position into first_stream_position, last_stream_position
        from relaybox_internal.stream_positions_between(subscription_.stream_id, start, through) b;
    if not second_cursor and dry_run then
        select max(l.done_stream_position) into last_stream_position from relaybox_internal.lane_cursors l
            where l.subscription_id = subscription_.subscription_id;
        if last_stream_position is null then
            perform relaybox_internal.subscription_named(replay.subscription); -- it was ended just now, which this says
        end if;
        replayed_as := subscription_.subscription;
    elsif not second_cursor then
        last_stream_position := null;
        for lane_ in 1..subscription_.lanes loop
            cursor_ := relaybox_internal.lock_lane(subscription_, lane_);
            last_stream_position := greatest(last_stream_position, cursor_.done_stream_position);
            if cursor_.done_stream_position >= first_stream_position then
                perform relaybox_internal.move_cursor(relaybox_internal.begin_pass(cursor_, first_stream_position,
                greatest(cursor_.replay_stream_position, cursor_.done_stream_position)));
            end if;
        end loop;
        replayed_as := subscription_.subscription;
    end if;
    select r.message_count, r.byte_count, coalesce(r.message_count::double precision / replay.rows_per_second, r.read_seconds)
    into message_count, byte_count, estimated_seconds
    from relaybox_internal.estimate_range(subscription_, first_stream_position, last_stream_position) r;
    if last_stream_position < first_stream_position then
        raise notice 'subscription %: nothing to replay from stream position %: %; nothing was changed', subscription_.subscription,
        first_stream_position,
            case
                when second_cursor then format('the end of the range is stream position %s', last_stream_position)
                else format('it is done through stream position %s', last_stream_position)
            end;
        replayed_as := null;
        return;
    elsif message_count = 0 then
        raise notice 'subscription %: no message for it was found in a sample of the stream positions % to %', subscription_.subscription,
        first_stream_position,
            last_stream_position;
    end if;
    if second_cursor then
        replayed_as := relaybox_internal.free_replay_name(subscription_);
    end if;
    if dry_run then
        return;
    end if;
    if second_cursor then
        perform relaybox_internal.open_replay(subscription_, replayed_as, first_stream_position, last_stream_position, replay.rows_per_second);
    else
        update relaybox_internal.subscription s set rows_per_second = replay.rows_per_second where s.subscription_id = subscription_.subscription_id;
    end if;
    perform relaybox_internal.record_action(subscription_.subscription, 'replay', reason, jsonb_build_object(
        'as', replayed_as, 'start', start, 'first_stream_position', first_stream_position, 'last_stream_position', last_stream_position,
        'rows_per_second', replay.rows_per_second
    ));
end
$$;

comment on function relaybox.replay(text, text, text, text, boolean, integer, boolean) is
'Reads messages again.
`subscription`: its name.
`start`: earliest, latest, a stream position, or a time. `through`: the end, in the same forms; only with second_cursor; null: the newest message.
`reason`: recorded in relaybox.consumer_action.
`second_cursor`: false: the lanes of the subscription go back to start and come forward again. True: a second subscription with a name of
its own reads the range, and the first one goes on undisturbed. `rows_per_second`: limit of the replay; null: none.
`dry_run`: true: only count, change nothing and lock nothing.
Returns `replayed_as` (the name to fetch from; null: the range is empty, nothing was changed), `first_stream_position`, `last_stream_position`,
`message_count`,
`byte_count`, `estimated_seconds`.
Errors: RB031 (not subscribed), RB034 (no longer kept), RB036 (no reason, or a value that is not allowed), RB038 (detached).';
