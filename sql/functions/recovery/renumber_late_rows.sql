-- Gives the rows of late_rows() new seqs behind all others, in the order in which they were written.
-- The owner of the store calls it, as reanchor says. Locks the outbox in exclusive mode until the
-- transaction ends: producers wait. Returns how many it renumbered. Raises RB018 if it can't tell
-- which rows these are.
create or replace function relaybox_internal.renumber_late_rows() returns bigint
language plpgsql volatile
as $$
declare
    last_seq bigint;
    uncertain bigint[];
    renumbered bigint;
begin
    lock table relaybox.outbox in exclusive mode;
    last_seq := relaybox_internal.last_outbox_seq();
    uncertain := array(
        select l.seq from relaybox_internal.late_rows() l where not l.is_certain order by l.seq
    );
    if uncertain <> '{}' then
        raise exception using errcode = 'RB018',
            message = format(
                'rows of the outbox may be copied or new, which their transaction numbers do not '
                'tell: %s of them, from seq %s to %s',
                cardinality(uncertain), uncertain[1], uncertain[cardinality(uncertain)]
            ),
            hint = 'Copy the store again, with its sequences, before applications write to it.';
    end if;
    update relaybox.outbox o set seq = last_seq + late.number
    from (
        select l.seq, row_number() over (order by l.xid, l.seq) as number
        from relaybox_internal.late_rows() l
    ) late
    where o.seq = late.seq;
    get diagnostics renumbered = row_count;
    perform setval('relaybox.outbox_seq', last_seq + renumbered);
    return renumbered;
end
$$;
