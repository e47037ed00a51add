-- Each fetch from a subscription gives one message, whatever max_count says, until its lanes are done through the next entry_count stream positions.
-- For workers that fetch, work and acknowledge in one transaction: the message that kills them comes alone then, and is the next of its
-- lane. Returns how many lanes it concerns: those with a fetch that is committed and not acknowledged are left alone, since their deaths
-- are counted. Called again, the last call counts. Locks all lanes. Raises RB031, RB036 without a reason or for a entry_count outside of
-- 1 to 1,000,000.
create or replace function relaybox.fetch_one_at_a_time(subscription text, reason text, entry_count bigint default 1000) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
as $$
declare
    subscription_ relaybox_internal.subscription := relaybox_internal.subscription_named(fetch_one_at_a_time.subscription);
    cursor_ relaybox_internal.cursor;
    changed integer := 0;
begin
    perform relaybox_internal.require_reason(reason, 'messages are fetched one at a time', 'fetch_one_at_a_time(subscription, ''why'')');
    if (entry_count between 1 and 1000000) is not true then
        raise exception using errcode = 'RB036', message = format('entry_count is %s, it must be 1 to 1000000', coalesce(entry_count::text, 'null'));
    end if;
    for lane_ in 1..subscription_.lanes loop
        cursor_ := relaybox_internal.lock_lane(subscription_, lane_);
        if cursor_.fetched_stream_position = cursor_.done_stream_position and cursor_.redrive_stream_position is null then
            cursor_.suspect_stream_position := cursor_.done_stream_position + entry_count;
            cursor_.suspect_rows := 1;
            perform relaybox_internal.move_cursor(cursor_);
            changed := changed + 1;
        end if;
    end loop;
    perform relaybox_internal.record_action(
        subscription_.subscription, 'fetch_one_at_a_time', reason, jsonb_build_object('entry_count', entry_count, 'lanes', changed)
    );
    return changed;
end
$$;

comment on function relaybox.fetch_one_at_a_time(text, text, bigint) is
'Makes each fetch give one message, to find a message that kills workers that fetch, work and acknowledge in one transaction.
`subscription`: its name. `reason`: recorded in relaybox.consumer_action.
`entry_count`: for the next stream positions of each lane, 1 to 1,000,000 (1000). The newest request counts.
Returns the number of lanes that it concerns; lanes with a committed fetch that is not acknowledged are left alone.
Errors: RB031 (not subscribed), RB036 (no reason, or such a entry_count is not allowed).';
