-- Refuses to make segments of the outbox while its sequence is behind segments that retention has
-- dropped, or gave rows there: nothing covers them again. Raises RB009, with the numbers.
create or replace function relaybox_internal.refuse_stray_rows() returns void
language plpgsql stable
as $$
declare
    head record;
begin
    select * into head from relaybox_internal.outbox_seq_state();
    if head.last_seq + 1 >= head.first_kept and head.stray_count = 0 then
        return;
    end if;
    raise exception using errcode = 'RB009',
        message = format(
            'the sequence relaybox.outbox_seq was set back: it is at %s, the oldest segment of the outbox begins at %s, and %s messages '
            'lie before it', head.last_seq, head.first_kept, head.stray_count
        ),
        hint = 'Run: relaybox init ' || (select s.store from relaybox_internal.store s)
            || '. It moves the sequence on and numbers these messages anew; none is lost.';
end
$$;
