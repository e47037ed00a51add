-- Makes each fetch from a subscription give one message until its lanes are done through the next
-- entry_count stream positions. Leaves out lanes with a committed fetch that is not acknowledged:
-- their deaths are counted. Locks all lanes.
create or replace function relaybox.fetch_one_at_a_time(
    subscription text, reason text, entry_count bigint default 1000
)
returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
declare
    subscription_ relaybox_internal.subscription
    := relaybox_internal.subscription_named(
        fetch_one_at_a_time.subscription, is_operating => true
    );
    cursor_ relaybox_internal.cursor;
    changed integer := 0;
begin
    perform relaybox_internal.require_reason(
        reason, 'messages are fetched one at a time', 'fetch_one_at_a_time(subscription, ''why'')'
    );
    if (entry_count between 1 and 1000000) is not true then
        raise exception using errcode = 'RB036',
            message = format(
                'entry_count is %s, it must be 1 to 1000000', coalesce(entry_count::text, 'null')
            );
    end if;
    for lane_ in 1..subscription_.lanes loop
        cursor_ := relaybox_internal.lock_lane(subscription_, lane_);
        if cursor_.fetched_stream_position = cursor_.done_stream_position
            and cursor_.redrive_stream_position is null then
            cursor_.suspect_stream_position := cursor_.done_stream_position + entry_count;
            cursor_.suspect_rows := 1;
            perform relaybox_internal.move_cursor(cursor_);
            changed := changed + 1;
        end if;
    end loop;
    perform relaybox_internal.record_action(
        subscription_.subscription_id, subscription_.subscription, 'fetch_one_at_a_time', reason,
        jsonb_build_object('entry_count', entry_count, 'lanes', changed)
    );
    return changed;
end
$$;

comment on function relaybox.fetch_one_at_a_time(text, text, bigint) is
'Makes each fetch give one message, whatever max_count says. Finds a message that kills its worker,
where workers fetch, work and acknowledge in one transaction.
`subscription`: its name. `reason`: recorded in relaybox.consumer_action.
`entry_count`: for the next stream positions of each lane, 1 to 1,000,000 (1000). A later call
    replaces an earlier one.
Returns the number of lanes that it changed; lanes with a committed fetch that is not acknowledged
    are left as they are.
Errors: RB031 (not subscribed), RB036 (no reason, or an entry_count that is not allowed),
    RB040 (bound to other roles).';
