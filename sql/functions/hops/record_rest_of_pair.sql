-- Keeps what a batch leaves unread of its pair of snapshots as a piece of the hop's backlog, or
-- ends the piece that the batch has read to the end. piece: the one that the batch reads, a row of
-- nulls if it reads a new pair. Caller holds the hop's row.
create or replace function relaybox_internal.record_rest_of_pair(
    planned relaybox_internal.batch, piece relaybox_internal.backlog
)
returns void
language plpgsql volatile
as $$
declare
    unread constant int8multirange := case
        when planned.pair_exhausted then '{}'::int8multirange
        else coalesce(piece.seqs, int8multirange(int8range(1, planned.pair_last_seq, '[]')))
            - int8multirange(int8range(0, planned.reads_through, '[]'))
    end;
begin
    if piece.backlog_id is not null and unread = '{}' then
        perform relaybox_internal.end_backlog_piece(planned.hop, piece.backlog_id);
    elsif piece.backlog_id is not null then
        update relaybox_internal.backlog set seqs = unread
        where hop = planned.hop and backlog_id = piece.backlog_id;
    elsif unread <> '{}' then
        insert into relaybox_internal.backlog (hop, topics, lower, upper, seqs)
        values (planned.hop, planned.topics, planned.lower, planned.upper, unread);
    end if;
end
$$;
