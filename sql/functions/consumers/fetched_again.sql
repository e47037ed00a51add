-- A locked lane's cursor when what was fetched is fetched again: counted, cut smaller or set aside if that killed its worker too often,
-- and nothing any more if all of it is set aside.
create or replace function relaybox.fetched_again(c relaybox.cursor, known relaybox.subscription, worker_ text) returns relaybox.cursor
language plpgsql volatile
as $$
declare
    fetched_ bigint;
    first bigint;
begin
    if c.redrive_place is null and c.fetched_place = c.done_place then
        return c;
    end if;
    if c.redrive_place is not null then
        select count(*), min(d.place) into fetched_, first from relaybox.dead_letter d
        where d.subscription_id = known.subscription_id and d.lane = c.lane and d.state = 'redriving' and d.place <= c.redrive_place;
        if fetched_ > 1 and c.fetch_count >= known.crash_limit then
            c.redrive_place := first;
            c.fetch_count := 0;
        elsif fetched_ = 1 and c.fetch_count >= known.crash_limit then
            perform relaybox.set_aside(c, known, first, 'killed_its_worker', format('fetched %s times without ack or nack', c.fetch_count), c.fetch_count, coalesce(c.worker, worker_));
            c.redrive_place := null;
        elsif fetched_ = 0 then
            c.redrive_place := null;
        end if;
    else
        if c.fetch_count >= known.crash_limit then
            select s.row_count into fetched_ from relaybox.scan_lane(known, c.lane, c.done_place, c.fetched_place, c.fetched_place - c.done_place) s;
            if fetched_ > 1 then
                c.suspect_place := greatest(c.suspect_place, c.fetched_place);
                c.suspect_rows := greatest(1, fetched_ / 10);
                select s.through_place into c.fetched_place from relaybox.scan_lane(known, c.lane, c.done_place, c.fetched_place, c.suspect_rows) s;
                c.fetch_count := case when c.suspect_rows = 1 then 0 else known.crash_limit - 1 end;
            elsif fetched_ = 1 then
                select s.through_place into first from relaybox.scan_lane(known, c.lane, c.done_place, c.fetched_place, 1) s;
                perform relaybox.set_aside(c, known, first, 'killed_its_worker', format('fetched %s times without ack or nack', c.fetch_count), c.fetch_count, coalesce(c.worker, worker_));
            end if;
        end if;
        if relaybox.set_aside_places(known, c.done_place, c.fetched_place) <> '{}' then
            select s.row_count into fetched_ from relaybox.scan_lane(known, c.lane, c.done_place, c.fetched_place, 1) s;
            if fetched_ = 0 then
                c.done_place := c.fetched_place;
            end if;
        end if;
    end if;
    c.fetch_count := case when c.redrive_place is null and c.fetched_place = c.done_place then 0 else c.fetch_count + 1 end;
    return c;
end
$$;
