-- A locked lane's cursor after everything up to a place was acknowledged. Writes what depends on it, not the cursor itself.
-- Caller: lock_fetch. Raises RB033 for what was not fetched.
create or replace function relaybox.acknowledged(c relaybox.cursor, known relaybox.subscription, place_ bigint) returns relaybox.cursor
language plpgsql volatile
as $$
declare
    rest bigint;
begin
    perform relaybox.require_fetched(c, known, place_);
    if c.redrive_place is not null then
        update relaybox.dead_letter d
        set state = 'redriven', settled_at = clock_timestamp(), given_ahead = d.place > c.done_place
        where d.subscription_id = c.subscription_id and d.lane = c.lane and d.state = 'redriving' and d.place <= place_;
        select min(d.place) into rest from relaybox.dead_letter d
        where d.subscription_id = c.subscription_id and d.lane = c.lane and d.state = 'redriving' and d.place <= c.redrive_place;
        if rest is null then
            c.redrive_place := null;
        end if;
    else
        c.done_place := place_;
        rest := case when c.fetched_place > place_ then c.fetched_place end;
        if c.done_place >= c.suspect_place then
            c.suspect_place := 0;
            c.suspect_rows := null;
        end if;
    end if;
    delete from relaybox.failed_attempt f where f.subscription_id = c.subscription_id and f.lane = c.lane and f.place <= place_;
    if rest is null then
        c.worker := null;
        c.leased_until := null;
        c.fetch_count := 0;
    else
        c.leased_until := clock_timestamp() + make_interval(secs => known.lease_seconds);
        c.fetch_count := 1;
    end if;
    return c;
end
$$;
