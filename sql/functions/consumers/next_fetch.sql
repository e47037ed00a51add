-- A locked lane's cursor after a fetch by a worker: what was fetched and not acknowledged again, else redriven dead letters, else
-- what comes next. Its worker is null if there is nothing. Writes dead letters, not the cursor itself.
-- Raises RB034 if what comes next is no longer kept, RB038 if it is detached.
create or replace function relaybox.next_fetch(c relaybox.cursor, known relaybox.subscription, max_count bigint, worker_ text) returns relaybox.cursor
language plpgsql volatile
as $$
declare
    asked_at timestamptz := clock_timestamp();
    stream relaybox.stream;
begin
    if c.wait_until > asked_at or (c.worker <> worker_ and c.leased_until > asked_at) then
        c.worker := null;
        return c;
    end if;
    c.wait_until := null;
    select * into stream from relaybox.stream s where s.stream_id = known.stream_id;
    if c.redrive_place is not null or c.fetched_place > c.done_place then
        if c.redrive_place is null then
            -- what was fetched long ago and never acknowledged
            perform relaybox.refuse_detached(stream, c.done_place + 1, format('subscription %s, lane %s', known.subscription, c.lane));
        end if;
        c := relaybox.fetched_again(c, known, worker_);
        if c.redrive_place is not null or c.fetched_place > c.done_place then
            return relaybox.lease_lane(c, known, worker_);
        end if;
    end if;
    c.worker := null;
    c.leased_until := null;
    select max(d.place) into c.redrive_place from (
        select r.place from relaybox.dead_letter r
        where r.subscription_id = known.subscription_id and r.lane = c.lane and r.state = 'redriving'
        order by r.place
        limit max_count
    ) d;
    if c.redrive_place is not null then
        c.fetch_count := 1;
        return relaybox.lease_lane(c, known, worker_);
    end if;
    c := relaybox.find_new_messages(c, known, stream, max_count, asked_at);
    if c.fetched_place > c.done_place then
        return relaybox.lease_lane(c, known, worker_);
    end if;
    return c;
end
$$;
