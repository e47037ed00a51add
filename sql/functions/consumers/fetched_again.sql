-- A locked lane's cursor when what was fetched is fetched again: counted, cut smaller or set aside if that killed its worker too often,
-- and nothing any more if all of it is set aside. A message that is fetched crash_limit times without ack or nack seems to kill its
-- worker: fetches shrink tenfold until it is alone, and then it is set aside. Caller: something is fetched.
create or replace function relaybox.fetched_again(c relaybox.cursor, known relaybox.subscription, worker_ text) returns relaybox.cursor
language plpgsql volatile
as $$
declare
    kept_count bigint;
begin
    if c.redrive_place is not null then
        c := relaybox.redrive_again(c, known, worker_);
    else
        if c.fetch_count >= known.crash_limit then
            c := relaybox.shrink_fetch(c, known, worker_);
        end if;
        if relaybox.set_aside_places(known, c.done_place, c.fetched_place) <> '{}' then
            select s.row_count into kept_count from relaybox.scan_lane(known, c.lane, c.done_place, c.fetched_place, 1) s;
            if kept_count = 0 then
                c.done_place := c.fetched_place;
            end if;
        end if;
    end if;
    c.fetch_count := case when c.redrive_place is null and c.fetched_place = c.done_place then 0 else c.fetch_count + 1 end;
    return c;
end
$$;
