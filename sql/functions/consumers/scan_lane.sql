-- Goes along a stream after a place and finds a lane's next messages, at most max_count of them, those set aside not among them.
-- through_place: of the last one found; if there is none, everything up to it was looked at.
create or replace function relaybox.scan_lane(
    known relaybox.subscription, lane_ integer, after_place bigint, bound_place bigint, max_count bigint,
    out through_place bigint, out row_count bigint
)
language plpgsql stable
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    set_aside_places bigint[] := relaybox.set_aside_places(known, after_place, bound_place);
    run record;
    run_row_count bigint;
    run_last_place bigint;
begin
    through_place := greatest(after_place, bound_place);
    row_count := 0;
    if known.lanes = 1 and known.topic is null and set_aside_places = '{}' then
        through_place := greatest(after_place, least(bound_place, after_place + max_count));
        row_count := through_place - after_place;
        return;
    end if;
    for run in select r.* from relaybox.list_delivery_runs(known.stream_id, after_place, bound_place) r loop
        if run.positions is null then
            select count(*), max(lane_message.place) into run_row_count, run_last_place from (
                select m.place from relaybox.read_position_range(run.hop_id, run.first_place, run.first_position, run.last_position) m
                where relaybox.takes_message(known.topic, known.lanes, known.lane_by, lane_, m.topic, m.sender, m.key)
                    and m.place <> all(set_aside_places)
                limit max_count - row_count
            ) lane_message;
        else
            select count(*), max(lane_message.place) into run_row_count, run_last_place from (
                select m.place from relaybox.read_position_list(run.hop_id, run.first_place, run.positions) m
                where relaybox.takes_message(known.topic, known.lanes, known.lane_by, lane_, m.topic, m.sender, m.key)
                    and m.place <> all(set_aside_places)
                limit max_count - row_count
            ) lane_message;
        end if;
        row_count := row_count + run_row_count;
        through_place := case when run_row_count > 0 then run_last_place else through_place end;
        exit when row_count >= max_count;
    end loop;
end
$$;
