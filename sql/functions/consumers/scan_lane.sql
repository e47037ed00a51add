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
    excluded bigint[] := relaybox.set_aside_places(known, after_place, bound_place);
    run record;
    first bigint;
    last bigint;
    found_here bigint;
    last_here bigint;
begin
    through_place := greatest(after_place, bound_place);
    row_count := 0;
    if known.lanes = 1 and known.topic is null and excluded = '{}' then
        through_place := greatest(after_place, least(bound_place, after_place + max_count));
        row_count := through_place - after_place;
        return;
    end if;
    for run in
        select d.first_place, d.last_place, d.hop_id, d.first_position, d.positions
        from relaybox.delivery d
        where d.stream_id = known.stream_id and d.last_place > after_place
        order by d.last_place
    loop
        exit when run.first_place > bound_place;
        first := greatest(run.first_place, after_place + 1) - run.first_place;
        last := least(run.last_place, bound_place) - run.first_place;
        if run.positions is null then
            select count(*), max(lane_row.place) into found_here, last_here from (
                select run.first_place + l.position - run.first_position as place
                from relaybox.log l
                where l.hop_id = run.hop_id and l.position >= run.first_position + first and l.position <= run.first_position + last
                    and (known.topic is null or l.topic = known.topic)
                    and (known.lanes = 1 or relaybox.lane_of(known.lane_by, known.lanes, l.sender, l.key) = lane_)
                    and run.first_place + l.position - run.first_position <> all(excluded)
                order by l.position
                limit max_count - row_count
            ) lane_row;
        else
            select count(*), max(lane_row.place) into found_here, last_here from (
                select run.first_place + first + u.n - 1 as place
                from unnest(run.positions[first + 1:last + 1]) with ordinality u (wanted, n)
                join relaybox.log l on l.hop_id = run.hop_id and l.position = u.wanted
                where (known.topic is null or l.topic = known.topic)
                    and (known.lanes = 1 or relaybox.lane_of(known.lane_by, known.lanes, l.sender, l.key) = lane_)
                    and run.first_place + first + u.n - 1 <> all(excluded)
                order by u.n
                limit max_count - row_count
            ) lane_row;
        end if;
        row_count := row_count + found_here;
        through_place := case when found_here > 0 then last_here else through_place end;
        exit when row_count >= max_count;
    end loop;
end
$$;
