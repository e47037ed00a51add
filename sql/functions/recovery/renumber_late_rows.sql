-- Gives the rows of late_rows() new seqs behind all others, in the order in which they were
-- inserted: by seq, which the sequence gave at that moment. The number of a transaction is older
-- than the rows that it inserts later. If the sequence was set back once more while applications
-- wrote, seqs do not tell the order; the times of the rows show it, and the owner says which of the
-- two is right: in_order_of, `seq` or `sent_at`. The owner of the store calls it, as reanchor says.
-- Locks the outbox in exclusive mode until the transaction ends: producers wait. Returns how many it
-- renumbered. Raises RB018 if it can't tell which rows these are, or in which order they came; RB036
-- for another order.
create or replace function relaybox_internal.renumber_late_rows(in_order_of text default null)
returns bigint
language plpgsql volatile
as $$
declare
    last_seq bigint;
    late_seqs bigint[];
    uncertain bigint[];
    early record;
begin
    if in_order_of not in ('seq', 'sent_at') then
        raise exception using errcode = 'RB036',
            message = format('rows can''t be put in the order of %s', in_order_of),
            hint = 'Give seq, sent_at, or nothing.';
    end if;
    lock table relaybox.outbox in exclusive mode;
    last_seq := relaybox_internal.last_outbox_seq();
    select
        coalesce(array_agg(l.seq), '{}'),
        coalesce(array_agg(l.seq order by l.seq) filter (where not l.is_certain), '{}')
    into late_seqs, uncertain
    from relaybox_internal.late_rows() l;
    if uncertain <> '{}' then
        raise exception using errcode = 'RB018',
            message = format(
                'rows of the outbox may be copied or new, which their transaction numbers do not '
                'tell: %s of them, from seq %s to %s',
                cardinality(uncertain), uncertain[1], uncertain[cardinality(uncertain)]
            ),
            hint = 'Copy the store again, with its sequences, before applications write to it.';
    end if;
    if in_order_of is null then
        select count(*) as row_count, min(r.seq) as seq, max(r.lag) as lag into early
        from (
            select o.seq, max(o.sent_at) over (
                order by o.seq rows between unbounded preceding and 1 preceding
            ) - o.sent_at as lag
            from relaybox.outbox o where o.seq = any(late_seqs)
        ) r
        where r.lag > interval '1 second';
        if early.row_count > 0 then
            raise exception using errcode = 'RB018',
                message = format(
                    'seqs and times of the rows to renumber contradict each other: %s of %s rows, '
                    'the first with seq %s, have a sent_at before that of a row with a lower seq, '
                    'by up to %s seconds',
                    early.row_count, cardinality(late_seqs), early.seq,
                    ceil(extract(epoch from early.lag))
                ),
                hint = 'If relaybox.outbox_seq was set back again while applications wrote: select '
                    'relaybox_internal.renumber_late_rows(''sent_at''). If the clock of the server '
                    'was set back: select relaybox_internal.renumber_late_rows(''seq'').';
        end if;
    end if;
    update relaybox.outbox o set seq = last_seq + late.number
    from (
        select r.seq, row_number() over (
            order by case when in_order_of = 'sent_at' then r.sent_at end, r.seq
        ) as number
        from relaybox.outbox r where r.seq = any(late_seqs)
    ) late
    where o.seq = late.seq;
    perform setval('relaybox.outbox_seq', last_seq + cardinality(late_seqs));
    return cardinality(late_seqs);
end
$$;
