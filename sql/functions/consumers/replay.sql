-- Reads again. second_cursor false: the subscription's lanes go back to start, and come forward again from there. True: a second cursor is
-- opened for start to through, under the name that is returned; the live cursor stays. start and through: earliest, latest, a place,
-- a time. dry_run only counts, and locks no row. Else it holds the subscription, and the lanes that it moves. A range without a place
-- changes nothing: the counts are 0, replayed_as is null, and a NOTICE says so.
-- Raises RB031, RB034 no longer kept, RB038 detached, RB036 (no reason, no such start, a time in the future).
create or replace function relaybox.replay(
    subscription text, start text, reason text, through text default null, second_cursor boolean default false,
    rows_per_second integer default null, dry_run boolean default false,
    out replayed_as text, out first_place bigint, out last_place bigint, out message_count bigint, out byte_count bigint,
    out estimated_seconds double precision
)
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
as $$
declare
    known relaybox.subscription := relaybox.subscription_named(replay.subscription);
    lane_ integer;
    c relaybox.cursor;
begin
    perform relaybox.require_reason(reason, 'a replay is asked for', 'replay(subscription, start, ''why'')');
    perform relaybox.require_rate(rows_per_second);
    if known.replay_of is not null or (through is not null and not second_cursor) then
        raise exception using errcode = 'RB036',
            message = case when known.replay_of is null then 'only a replay with a second cursor has an end' else 'a replay is not replayed' end,
            hint = case when known.replay_of is null then 'Give second_cursor => true (relaybox replay: --second-cursor), or no end.' else 'Replay the subscription itself.' end;
    end if;
    if not dry_run then
        -- one replay after the other, and the subscription before its lanes
        perform from relaybox.subscription s where s.subscription_id = known.subscription_id for no key update;
        perform from relaybox.stream s where s.stream_id = known.stream_id for key share;
    end if;
    select b.first_place, b.last_place into first_place, last_place from relaybox.places_between(known.stream_id, start, through) b;
    if not second_cursor and dry_run then
        select max(l.done_place) into last_place from relaybox.lane_cursors l where l.subscription_id = known.subscription_id;
        if last_place is null then
            perform relaybox.subscription_named(replay.subscription); -- it was ended just now, which this says
        end if;
        replayed_as := known.subscription;
    elsif not second_cursor then
        last_place := null;
        for lane_ in 1..known.lanes loop
            c := relaybox.lock_lane(known, lane_);
            last_place := greatest(last_place, c.done_place);
            if c.done_place >= first_place then
                perform relaybox.move_cursor(relaybox.begin_pass(c, first_place, greatest(c.replay_place, c.done_place)));
            end if;
        end loop;
        replayed_as := known.subscription;
    end if;
    select r.message_count, r.byte_count, coalesce(r.message_count::double precision / replay.rows_per_second, r.read_seconds)
    into message_count, byte_count, estimated_seconds
    from relaybox.estimate_range(known, first_place, last_place) r;
    if last_place < first_place then
        raise notice 'subscription %: nothing to replay from place %: %; nothing was changed', known.subscription, first_place,
            case
                when second_cursor then format('the end of the range is place %s', last_place)
                else format('it is done through place %s', last_place)
            end;
        replayed_as := null;
        return;
    elsif message_count = 0 then
        raise notice 'subscription %: no message for it was found in a sample of the places % to %', known.subscription, first_place,
            last_place;
    end if;
    if second_cursor then
        replayed_as := relaybox.free_replay_name(known);
    end if;
    if dry_run then
        return;
    end if;
    if second_cursor then
        perform relaybox.open_replay(known, replayed_as, first_place, last_place, replay.rows_per_second);
    else
        update relaybox.subscription s set rows_per_second = replay.rows_per_second where s.subscription_id = known.subscription_id;
    end if;
    perform relaybox.record_action(known.subscription, 'replay', reason, jsonb_build_object(
        'as', replayed_as, 'start', start, 'first_place', first_place, 'last_place', last_place, 'rows_per_second', replay.rows_per_second
    ));
end
$$;

comment on function relaybox.replay(text, text, text, text, boolean, integer, boolean) is
'Reads messages again.
`subscription`: its name.
`start`: earliest, latest, a place, or a time. `through`: the end, in the same forms; only with second_cursor; null: the newest message.
`reason`: recorded in relaybox.consumer_action.
`second_cursor`: false: the lanes of the subscription go back to start and come forward again. True: a second subscription with a name of
its own reads the range, and the first one goes on undisturbed. `rows_per_second`: limit of the replay; null: none.
`dry_run`: true: only count, change nothing and lock nothing.
Returns `replayed_as` (the name to fetch from; null: the range is empty, nothing was changed), `first_place`, `last_place`, `message_count`,
`byte_count`, `estimated_seconds`.
Errors: RB031 (not subscribed), RB034 (no longer kept), RB036 (no reason, or a value that is not allowed), RB038 (detached).';
