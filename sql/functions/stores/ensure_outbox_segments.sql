-- Makes outbox segments ahead of the sequence. Producers are not blocked while a segment or more is
-- left: ATTACH takes SHARE UPDATE EXCLUSIVE only. Rows that fell into outbox_overflow become a segment of their own. Returns the
-- names of the segments made: none where a long transaction holds a table that is needed. Nobody
-- waits for it: what no segment covers goes into the overflow meanwhile. Raises RB003 if a trigger
-- of others made a new segment unlogged: a crash of the server would empty it. RB009 if the sequence
-- was set back behind segments that retention has dropped.
create or replace function relaybox_internal.ensure_outbox_segments(ahead_count integer default 4) returns text[]
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
set lock_timeout = '200ms' -- producers wait as long behind the lock that is waited for
as $$
declare
    size bigint := (select s.segment_rows from relaybox_internal.store s);
    next_seq bigint := (select case when q.is_called then q.last_value + 1 else q.last_value end from relaybox.outbox_seq q);
    is_alone boolean := false; -- no insert is on the way
    covered bigint;
    overflow_last bigint;
    made text[] := '{}';
    segment text;
    upper_end bigint;
begin
    begin
        perform relaybox_internal.refuse_stray_rows(); -- reads the overflow, which another maker may have locked
        covered := relaybox_internal.outbox_covered();
        if next_seq + ahead_count * size <= covered and not exists (select from relaybox_internal.outbox_overflow o where o.seq >= covered) then
            return made;
        end if;
        -- one maker at a time. Attaching takes this lock too, and a login needs rights on the table to take it
        lock table only relaybox.outbox in share update exclusive mode;
        covered := relaybox_internal.outbox_covered();
        select max(o.seq) into overflow_last from relaybox_internal.outbox_overflow o where o.seq >= covered;
        -- again: the sequence went on while this waited for the lock
        select case when q.is_called then q.last_value + 1 else q.last_value end into next_seq from relaybox.outbox_seq q;
        if overflow_last is not null or next_seq + size >= covered then
            -- ACCESS EXCLUSIVE on the outbox for a moment: only after an outage that used up all the
            -- segments made ahead but one. Nobody is on the way into the overflow then: Postgres would
            -- refuse an insert whose seq is a segment's when it arrives there (23514)
            lock table relaybox.outbox in access exclusive mode;
            is_alone := true;
            select max(o.seq) into overflow_last from relaybox_internal.outbox_overflow o where o.seq >= covered;
            select case when q.is_called then q.last_value + 1 else q.last_value end into next_seq from relaybox.outbox_seq q;
        end if;
        if overflow_last is not null then
            segment := relaybox_internal.segment_name('outbox', covered / size);
            overflow_last := (overflow_last / size + 1) * size;
            alter table relaybox.outbox detach partition relaybox_internal.outbox_overflow;
            execute format('alter table relaybox_internal.outbox_overflow rename to %I', segment);
            execute format('alter table relaybox.outbox attach partition relaybox_internal.%I for values from (%s) to (%s)', segment, covered, overflow_last);
            create table relaybox_internal.outbox_overflow partition of relaybox.outbox default;
            perform relaybox_internal.limit_rights('relaybox_internal.outbox_overflow'::regclass, 'relaybox.outbox'::regclass);
            made := made || segment;
            covered := overflow_last;
        end if;
        while covered < next_seq + ahead_count * size loop
            -- a jump of the sequence is covered by one wide segment
            upper_end := greatest(covered + size, next_seq / size * size);
            segment := relaybox_internal.segment_name('outbox', covered / size);
            execute format('create table relaybox_internal.%I (like relaybox.outbox including defaults including constraints)', segment);
            perform relaybox_internal.limit_rights(format('relaybox_internal.%I', segment)::regclass, 'relaybox.outbox'::regclass);
            execute format('alter table relaybox.outbox attach partition relaybox_internal.%I for values from (%s) to (%s)', segment, covered, upper_end);
            made := made || segment;
            covered := upper_end;
        end loop;
    exception
        when lock_not_available or deadlock_detected then
            made := '{}';
        when check_violation then
            -- more than a segment was filled meanwhile: there are rows in the overflow that a new one covers
            if is_alone then
                raise;
            end if;
            made := '{}';
    end;
    if exists (
        select from pg_class c
        where c.relname = any(made) and c.relnamespace = 'relaybox_internal'::regnamespace and c.relpersistence = 'u'
    ) then
        raise exception using errcode = 'RB003',
            message = format('an event trigger made new segments of the outbox unlogged, which a crash of the server empties: %s', array_to_string(made, ', ')),
            hint = 'Disable it. This command names it: relaybox doctor ' || (select s.store from relaybox_internal.store s);
    end if;
    return made;
end
$$;
