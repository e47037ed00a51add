-- The cursor of the lane that a worker got messages from; its worker is null if none has any. Acknowledges first, if asked to.
-- Locks one lane at a time, waiting only for one that was named; free lanes that another transaction holds are passed over.
-- Raises RB035 for a named lane that another worker has leased.
create or replace function relaybox.take_lane(
    known relaybox.subscription, max_count integer, acked_place bigint, acked_token text, only_lane integer, worker_ text
)
returns relaybox.cursor
language plpgsql volatile
as $$
declare
    c relaybox.cursor;
    taken relaybox.cursor;
    candidate integer;
begin
    if acked_place is not null then
        c := relaybox.lock_fetch(known, acked_token, 'select * from relaybox.fetch(''SUBSCRIPTION'', COUNT, PLACE, ''TOKEN'').');
        c := relaybox.acknowledged(c, known, acked_place);
        if known.lanes = 1 or c.lane = only_lane then
            c.worker := case when c.worker is not null then worker_ end; -- the token proved whose the rest is
            taken := relaybox.next_fetch(c, known, max_count, worker_);
            perform relaybox.move_cursor(taken);
            return taken;
        end if;
        perform relaybox.move_cursor(c);
    end if;
    if only_lane is not null then
        c := relaybox.lock_lane(known, only_lane);
        if c.worker <> worker_ and c.leased_until > clock_timestamp() then
            raise exception using errcode = 'RB035',
                message = format('subscription %s, lane %s is leased to worker %s until %s', known.subscription, c.lane, c.worker, c.leased_until),
                hint = 'Fetch without naming a lane to get one that is free.';
        end if;
        taken := relaybox.next_fetch(c, known, max_count, worker_);
        if taken is distinct from c then
            perform relaybox.move_cursor(taken);
        end if;
        return taken;
    end if;
    for candidate in select f.lane from relaybox.lanes_for(known, worker_) f loop
        perform from relaybox.lane l where l.subscription_id = known.subscription_id and l.lane = candidate for update skip locked;
        if found then
            c := relaybox.lock_lane(known, candidate);
            if c.worker is null or c.worker = worker_ or c.leased_until <= clock_timestamp() then
                taken := relaybox.next_fetch(c, known, max_count, worker_);
                if taken is distinct from c then
                    perform relaybox.move_cursor(taken);
                end if;
                if taken.worker is not null then
                    return taken;
                end if;
            end if;
        end if;
    end loop;
    return null;
end
$$;
