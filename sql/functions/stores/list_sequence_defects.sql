-- Whether the sequence of the outbox was set back, as rows of list_table_defects(): behind rows that
-- are there, behind segments that retention has dropped, or into a sealed segment, which refuses each
-- insert. Init moves it on. No row of a store whose view or sequence is missing. Takes no lock.
create or replace function relaybox_internal.list_sequence_defects()
returns table (state text, defect text, statement text, is_mendable boolean)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    head record;
    sealed_last bigint;
begin
    if to_regclass('relaybox_internal.sent_rows') is null or to_regclass('relaybox.outbox_seq') is null
        or to_regprocedure('relaybox_internal.outbox_seq_state()') is null
        or to_regprocedure('relaybox_internal.hops_that_planned(xid8)') is null
    then
        return;
    end if;
    select * into head from relaybox_internal.outbox_seq_state();
    if to_regclass('relaybox_internal.sealed_segment') is not null then
        sealed_last := (select max(s.last_seq) from relaybox_internal.sealed_segment s where s.last_seq > head.last_seq);
    end if;
    if
        head.newest_seq is null and head.last_seq + 1 >= head.first_kept and head.stray_count = 0
        and sealed_last is null
    then
        return;
    end if;
    state := 'changed';
    defect := format(
        'sequence relaybox.outbox_seq was set back: it is at %s, %s%s', head.last_seq,
        case
            when head.newest_seq is not null then format('the newest row has seq %s', head.newest_seq)
            when sealed_last is not null then format('segments through %s are sealed and refuse each insert', sealed_last)
            else format('the oldest segment begins at %s', head.first_kept)
        end,
        case
            when head.stray_count > 0 then format(', and %s messages lie before all segments', head.stray_count)
            else ''
        end
    );
    statement := 'select relaybox_internal.advance_outbox_seq()';
    is_mendable := true;
    return next;
end
$$;
