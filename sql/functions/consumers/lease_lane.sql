-- A locked lane's cursor leased to a worker, with the token that proves the fetch. Writes nothing.
create or replace function relaybox.lease_lane(c relaybox.cursor, known relaybox.subscription, worker_ text) returns relaybox.cursor
language plpgsql volatile
as $$
begin
    c.worker := worker_;
    c.leased_until := clock_timestamp() + make_interval(secs => known.lease_seconds);
    c.token := c.lane || '-' || left(replace(gen_random_uuid()::text, '-', ''), 16);
    c.fetched_in := pg_current_xact_id();
    return c;
end
$$;
