-- Ends a replay: a second cursor is closed; lanes that went back go on where they had been. Returns the name of what was cancelled.
-- Raises RB031, RB036 if nothing is being replayed, or without a reason.
create or replace function relaybox.cancel_replay(subscription text, reason text) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
as $$
declare
    known relaybox.subscription := relaybox.subscription_named(cancel_replay.subscription);
    lane_ integer;
    c relaybox.cursor;
    stood jsonb := '{}';
begin
    if coalesce(btrim(reason), '') = '' then
        raise exception using errcode = 'RB036', message = 'a replay is cancelled with a reason', hint = 'cancel_replay(subscription, ''why'')';
    end if;
    if known.replay_of is not null then
        perform relaybox.unsubscribe(known.subscription, reason);
        return known.subscription;
    end if;
    for lane_ in 1..known.lanes loop
        c := relaybox.lock_lane(known, lane_);
        if c.done_place < c.replay_place then
            stood := stood || jsonb_build_object(lane_, c.done_place);
            c.done_place := c.replay_place;
            c.fetched_place := c.replay_place;
            c.redrive_place := null;
            c.fetch_count := 0;
            c.worker := null;
            c.leased_until := null;
            perform relaybox.move_cursor(c);
        end if;
    end loop;
    if stood = '{}' then
        raise exception using errcode = 'RB036', message = format('subscription %s replays nothing', known.subscription);
    end if;
    update relaybox.subscription s set rows_per_second = null where s.subscription_id = known.subscription_id;
    perform relaybox.record_action(known.subscription, 'cancel_replay', reason, jsonb_build_object('done_places', stood));
    return known.subscription;
end
$$;
