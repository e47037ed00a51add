-- Sets aside each message of pg_temp.clocked whose clock is a part of a circle: it asks for a message that waits, by way of other
-- clocks, for this one. Clocks that say what their senders had received make none. All else that the circle waits for is there
-- already, and whom it kept waiting goes on. Looks at pg_temp.wait and empties it. Returns whether there was any.
create or replace function relaybox.set_aside_circles() returns boolean
language plpgsql volatile
as $$
declare
    changed bigint;
    found_any boolean := false;
begin
    loop
        -- whoever waits for nobody, and whom nobody waits for, is in no circle
        delete from pg_temp.wait w
        where not exists (select from pg_temp.wait o where o.taken = w.for_taken)
            or not exists (select from pg_temp.wait o where o.for_taken = w.taken);
        get diagnostics changed = row_count;
        continue when changed > 0;
        exit when not exists (select from pg_temp.wait);
        -- reaches: the last of all messages that one waits for, directly or not; whom that one waits for in turn is in its circle
        insert into pg_temp.circle (taken, reaches) select distinct w.taken, w.taken from pg_temp.wait w;
        loop
            update pg_temp.circle c set reaches = n.reaches
            from (
                select w.taken, max(o.reaches) as reaches from pg_temp.wait w join pg_temp.circle o on o.taken = w.for_taken group by w.taken
            ) n
            where n.taken = c.taken and n.reaches > c.reaches;
            get diagnostics changed = row_count;
            exit when changed = 0;
        end loop;
        with recursive member as (
            select c.taken, c.reaches from pg_temp.circle c where c.taken = c.reaches
            union
            select w.for_taken, m.reaches
            from member m
            join pg_temp.wait w on w.taken = m.taken
            join pg_temp.circle c on c.taken = w.for_taken and c.reaches = m.reaches
        )
        delete from pg_temp.circle c where not exists (select from member m where m.taken = c.taken);
        update pg_temp.clocked j set verdict = 'clock_waits_for_itself'
        where j.taken in (
            select w.taken
            from pg_temp.wait w
            join pg_temp.circle c on c.taken = w.taken
            join pg_temp.circle o on o.taken = w.for_taken and o.reaches = c.reaches
            where w.by_clock
        );
        found_any := found_any or found;
        delete from pg_temp.wait w using pg_temp.circle c where c.taken in (w.taken, w.for_taken);
        delete from pg_temp.circle;
    end loop;
    delete from pg_temp.cause c using pg_temp.clocked j where j.verdict = 'clock_waits_for_itself' and j.taken = c.taken;
    return found_any;
end
$$;
