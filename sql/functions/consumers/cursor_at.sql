-- A locked lane's cursor put at a place by somebody's order: done through it, nothing fetched, redriven, suspected or leased.
-- Writes nothing.
create or replace function relaybox.cursor_at(c relaybox.cursor, place_ bigint) returns relaybox.cursor
language plpgsql stable
as $$
begin
    c.done_place := place_;
    c.fetched_place := place_;
    c.redrive_place := null;
    c.fetch_count := 0;
    c.suspect_place := 0;
    c.suspect_rows := null;
    c.worker := null;
    c.leased_until := null;
    c.token := null;
    c.fetched_in := null;
    return c;
end
$$;
