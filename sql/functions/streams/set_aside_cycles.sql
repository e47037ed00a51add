-- Sets aside each message of pg_temp.causal_message whose clock is part of a cycle: it names a
-- message that waits, through other clocks, for this one. Clocks that name only what their senders
-- had received make no cycle. Everything else that the cycle waits for is here already, and the
-- messages that waited for it go on. Reads pg_temp.release_order and empties it. Returns whether
-- there was any.
create or replace function relaybox_internal.set_aside_cycles() returns boolean
language plpgsql volatile
as $$
declare
    changed bigint;
    found_any boolean := false;
begin
    loop
        -- a message that follows none, or that none follows, is in no cycle
        delete from pg_temp.release_order w
        where not exists (select from pg_temp.release_order o where o.arrival_seq = w.follows_seq)
            or not exists (select from pg_temp.release_order o where o.follows_seq = w.arrival_seq);
        get diagnostics changed = row_count;
        continue when changed > 0;
        exit when not exists (select from pg_temp.release_order);
        -- two messages of one cycle follow the same messages, directly or not: the last one of
        -- these is the same
        insert into pg_temp.cycle_message (arrival_seq, reaches_seq)
        select distinct w.arrival_seq, w.arrival_seq from pg_temp.release_order w;
        loop
            update pg_temp.cycle_message c set reaches_seq = n.reaches_seq
            from (
                select w.arrival_seq, max(o.reaches_seq) as reaches_seq
                from pg_temp.release_order w
                join pg_temp.cycle_message o on o.arrival_seq = w.follows_seq
                group by w.arrival_seq
            ) n
            where n.arrival_seq = c.arrival_seq and n.reaches_seq > c.reaches_seq;
            get diagnostics changed = row_count;
            exit when changed = 0;
        end loop;
        with recursive member as (
            select c.arrival_seq, c.reaches_seq
            from pg_temp.cycle_message c where c.arrival_seq = c.reaches_seq
            union
            select w.follows_seq, m.reaches_seq
            from member m
            join pg_temp.release_order w on w.arrival_seq = m.arrival_seq
            join pg_temp.cycle_message c on c.arrival_seq = w.follows_seq
                and c.reaches_seq = m.reaches_seq
        )
        delete from pg_temp.cycle_message c
        where not exists (select from member m where m.arrival_seq = c.arrival_seq);
        update pg_temp.causal_message j set outcome = 'clock_waits_for_itself'
        where j.arrival_seq in (
            select w.arrival_seq from pg_temp.release_order w
            join pg_temp.cycle_message c on c.arrival_seq = w.arrival_seq
            join pg_temp.cycle_message o on o.arrival_seq = w.follows_seq
                and o.reaches_seq = c.reaches_seq
            where w.is_by_clock
        );
        found_any := found_any or found;
        delete from pg_temp.release_order w
        using pg_temp.cycle_message c
        where c.arrival_seq in (w.arrival_seq, w.follows_seq);
        delete from pg_temp.cycle_message;
    end loop;
    delete from pg_temp.unmet_cause c
    using pg_temp.causal_message j
    where j.outcome = 'clock_waits_for_itself' and j.arrival_seq = c.arrival_seq;
    return found_any;
end
$$;
