-- A locked lane's cursor after a fetch by a worker: what was fetched and not acknowledged again, else redriven dead letters, else
-- what comes next. Its worker is null if there is nothing. Writes dead letters, not the cursor itself.
-- Raises RB034 if what comes next is no longer kept, RB038 if it is detached. A message that is fetched crash_limit times without
-- ack or nack seems to kill its worker: fetches shrink tenfold until it is alone, and then it is set aside.
create or replace function relaybox.next_fetch(c relaybox.cursor, known relaybox.subscription, max_count bigint, worker_ text) returns relaybox.cursor
language plpgsql volatile
as $$
declare
    at timestamptz := clock_timestamp();
    stream relaybox.stream;
    bound bigint;
    window_bound bigint;
    wanted bigint;
    scan record;
    saved numeric;
begin
    if c.wait_until > at or (c.worker <> worker_ and c.leased_until > at) then
        c.worker := null;
        return c;
    end if;
    c.wait_until := null;
    select * into stream from relaybox.stream s where s.stream_id = known.stream_id;
    bound := least(known.through_place, stream.last_place);
    if c.redrive_place is null and c.fetched_place > c.done_place then
        -- what was fetched long ago and never acknowledged
        perform relaybox.refuse_detached(stream, c.done_place + 1, format('subscription %s, lane %s', known.subscription, c.lane));
    end if;
    c := relaybox.fetched_again(c, known, worker_);
    if c.redrive_place is not null or c.fetched_place > c.done_place then
        return relaybox.lease_lane(c, known, worker_);
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
    wanted := max_count;
    if c.done_place >= bound then
        return c;
    end if;
    if c.done_place + 1 < stream.first_kept_place then
        perform relaybox.refuse_detached(stream, c.done_place + 1, format('subscription %s, lane %s', known.subscription, c.lane));
        raise exception using errcode = 'RB034',
            message = format(
                'subscription %s, lane %s: place %s comes next and is no longer kept; the first one is %s',
                known.subscription, c.lane, c.done_place + 1, stream.first_kept_place
            ),
            hint = 'The missing messages can''t be read here any more. To go on with what is kept, unsubscribe and subscribe anew at ''earliest''.';
    end if;
    if c.suspect_place > c.done_place then
        bound := least(bound, c.suspect_place);
        wanted := least(wanted, c.suspect_rows);
    end if;
    if known.rows_per_second is not null and c.done_place < c.replay_place then
        saved := least(extract(epoch from at - coalesce(c.rate_from, at - interval '1 second')) * known.rows_per_second / known.lanes, greatest(known.rows_per_second / known.lanes, 1));
        wanted := least(wanted, floor(saved));
        if wanted < 1 then
            return c;
        end if;
    end if;
    loop
        window_bound := bound;
        if known.hold_sender then
            window_bound := least(bound, c.done_place + wanted * known.lanes * 2 + 100);
            perform relaybox.hold_back(c, known, c.done_place, window_bound);
        end if;
        select s.through_place, s.row_count into scan from relaybox.scan_lane(known, c.lane, c.done_place, window_bound, wanted) s;
        exit when scan.row_count > 0;
        c.done_place := scan.through_place;
        c.fetched_place := scan.through_place;
        if c.done_place >= bound then
            return c;
        end if;
    end loop;
    c.fetched_place := scan.through_place;
    c.first_fetched_at := case when c.suspect_place > c.done_place then c.first_fetched_at else at end;
    if saved is not null then
        c.rate_from := at - make_interval(secs => ((saved - scan.row_count) * known.lanes / known.rows_per_second)::double precision);
    end if;
    c.fetch_count := case when c.suspect_place > c.done_place and c.suspect_rows > 1 then known.crash_limit else 1 end;
    return relaybox.lease_lane(c, known, worker_);
end
$$;
