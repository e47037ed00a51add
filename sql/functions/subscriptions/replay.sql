-- Reads again: puts the lanes of the subscription back to start, or opens a second cursor for a
-- range. dry_run locks no row. Else locks the subscription, and the lanes that it moves. A range
-- without a stream position changes nothing, and a NOTICE says so.
create or replace function relaybox.replay(
    subscription text, start text, reason text, through text default null,
    second_cursor boolean default false, rows_per_second integer default null,
    dry_run boolean default false,
    out replayed_as text, out first_stream_position bigint, out last_stream_position bigint,
    out message_count bigint, out byte_count bigint, out estimated_seconds double precision
)
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
declare
    subscription_ relaybox_internal.subscription
    := relaybox_internal.subscription_named(
        replay.subscription, is_reading => dry_run, gives_messages => true, is_operating => true
    );
begin
    perform relaybox_internal.require_reason(
        reason, 'a replay is asked for', 'replay(subscription, start, ''why'')'
    );
    perform relaybox_internal.require_rate(rows_per_second);
    if num_nulls(second_cursor, dry_run) > 0 then
        raise exception using errcode = 'RB036',
            message = 'second_cursor and dry_run are true or false, not null';
    end if;
    perform relaybox_internal.require_replay_form(subscription_, through, second_cursor);
    if not dry_run then
        perform relaybox_internal.require_approval(
            format('replay subscription %s', subscription_.subscription), 'replay'
        );
        -- one replay after the other, and the subscription before its lanes
        perform from relaybox_internal.subscription s
        where s.subscription_id = subscription_.subscription_id for no key update;
        perform from relaybox_internal.stream s
        where s.stream_id = subscription_.stream_id for key share;
    end if;
    select b.first_stream_position, b.last_stream_position
    into first_stream_position, last_stream_position
    from relaybox_internal.stream_positions_between(subscription_.stream_id, start, through) b;
    if not second_cursor then
        replayed_as := subscription_.subscription;
        last_stream_position := case
            when dry_run then relaybox_internal.furthest_lane(subscription_)
            else relaybox_internal.rewind_lanes(subscription_, first_stream_position)
        end;
    end if;
    select
        e.message_count, e.byte_count,
        coalesce(e.message_count::double precision / replay.rows_per_second, e.read_seconds)
    into message_count, byte_count, estimated_seconds
    from relaybox_internal.estimate_range(
        subscription_, first_stream_position, last_stream_position
    ) e;
    perform relaybox_internal.warn_of_empty_range(
        subscription_, first_stream_position, last_stream_position, second_cursor, message_count
    );
    if last_stream_position < first_stream_position then
        replayed_as := null;
        return;
    end if;
    if second_cursor then
        replayed_as := relaybox_internal.free_replay_name(subscription_);
    end if;
    if dry_run then
        return;
    end if;
    if second_cursor then
        perform relaybox_internal.open_replay(
            subscription_, replayed_as, first_stream_position, last_stream_position,
            replay.rows_per_second
        );
    else
        update relaybox_internal.subscription s set rows_per_second = replay.rows_per_second
        where s.subscription_id = subscription_.subscription_id;
    end if;
    perform relaybox_internal.wake_consumers(subscription_.stream_id);
    perform relaybox_internal.record_action(
        subscription_.subscription_id, subscription_.subscription, 'replay', reason, jsonb_build_object(
            'as', replayed_as, 'start', start,
            'first_stream_position', first_stream_position,
            'last_stream_position', last_stream_position,
            'rows_per_second', replay.rows_per_second
        )
    );
end
$$;

comment on function relaybox.replay(text, text, text, text, boolean, integer, boolean) is
'Reads messages again.
`subscription`: its name.
`start`: earliest, latest, a stream position, or a time.
`through`: the end, in the same forms; only with second_cursor; null: the newest message.
`reason`: recorded in relaybox.consumer_action.
`second_cursor`: false: the lanes of the subscription go back to start and come forward again.
    True: a second subscription with a name of its own reads the range. The first one stays.
`rows_per_second`: limit of the replay; null: none.
`dry_run`: true: only counts; changes nothing and locks nothing.
Returns `replayed_as` (the name to fetch from; null: the range is empty, nothing was changed),
    `first_stream_position`, `last_stream_position`, `message_count`, `byte_count`,
    `estimated_seconds`.
Errors: RB031 (not subscribed), RB034 (no longer kept), RB036 (no reason, or a value that is not
    allowed), RB038 (detached), RB040 (bound to other roles), RB041 (a topic that the
    role may not read), RB042 (needs an approval; a dry run needs none).';
