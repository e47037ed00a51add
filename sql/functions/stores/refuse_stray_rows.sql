-- Refuses to make segments of the outbox while its sequence is behind segments that retention has
-- dropped, or gave rows there: nothing covers them again. Reads the overflow, where such rows are,
-- and not the outbox: the caller locks that next, and retention may be waiting for it. Raises RB009,
-- with the numbers.
create or replace function relaybox_internal.refuse_stray_rows() returns void
language plpgsql stable
as $$
declare
    last_seq bigint := coalesce(pg_sequence_last_value('relaybox.outbox_seq'), 0);
    first_kept bigint := coalesce((select min(s.first) from relaybox_internal.segments() s where s.log_id is null), 0);
    stray_count bigint := (
        select count(*) from relaybox_internal.outbox_overflow o
        where o.seq < first_kept and not exists (select from relaybox_internal.hops_that_planned(o.xid))
    );
begin
    if last_seq + 1 >= first_kept and stray_count = 0 then
        return;
    end if;
    raise exception using errcode = 'RB009',
        message = format(
            'the sequence relaybox.outbox_seq was set back: it is at %s, the oldest segment of the outbox begins at %s, and %s messages '
            'lie before it', last_seq, first_kept, stray_count
        ),
        hint = 'Run: relaybox init ' || (select s.store from relaybox_internal.store s)
            || '. It moves the sequence on and numbers these messages anew; none is lost.';
end
$$;
