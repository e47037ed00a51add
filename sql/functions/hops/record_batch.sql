-- Writes the plan of the next batch; from the caller's COMMIT on it never changes. It reads the first routed piece of the hop's backlog, or,
-- where there is none (backlog_id_ null), a new pair whose rest becomes a piece. Caller holds the hop through lock_hop().
-- Raises RB005 if the previous batch is not confirmed or the plan does not follow it.
create or replace function relaybox_internal.record_batch(
    hop_name text, backlog_id_ bigint, lower_ pg_snapshot, upper_ pg_snapshot, pair_last_seq_ bigint, pair_exhausted_ boolean,
    reads_after_ bigint, reads_through_ bigint, row_count_ bigint, slices_ jsonb,
    digests_ text[], system_identifier_ bigint, timeline_ integer, next_xid_ xid8
)
returns relaybox_internal.batch
language plpgsql volatile
as $$
declare
    head relaybox_internal.hop_out;
    piece relaybox_internal.backlog;
    left_over int8multirange;
    planned relaybox_internal.batch;
begin
    select * into head from relaybox_internal.hop_out h where h.hop = hop_name for update;
    select * into piece from relaybox_internal.backlog p where p.hop = hop_name and p.state = 'routed' order by p.backlog_id limit 1;
    if head.batch > 0 and not exists (
        select from relaybox_internal.confirmation c
        where c.hop = hop_name and c.state = 'received' and c.through_batch = head.batch
    ) then
        raise exception using errcode = 'RB005', message = format('hop %s: batch %s is not confirmed yet', hop_name, head.batch);
    end if;
    if piece.backlog_id is distinct from backlog_id_ then
        raise exception using errcode = 'RB005', message = format('hop %s: the first piece of its backlog comes next', hop_name);
    end if;
    if head.reads_log is not null
            and reads_after_ <> relaybox_internal.log_read_through(hop_name)
        or piece.backlog_id is not null
            and (lower_::text, upper_::text, reads_after_) is distinct from (piece.lower::text, piece.upper::text, lower(piece.seqs) - 1)
        or head.reads_log is null and piece.backlog_id is null and (lower_::text, reads_after_) is distinct from (head.lower::text, 0::bigint)
    then
        raise exception using errcode = 'RB005', message = format('hop %s: the plan does not follow batch %s', hop_name, head.batch);
    end if;
    insert into relaybox_internal.batch (
        hop, batch, topics, lower, upper, pair_last_seq, pair_exhausted, reads_after, reads_through,
        first_position, last_position, row_count, slices, digests, system_identifier, timeline, next_xid,
        generation
    )
    values (
        hop_name, head.batch + 1, coalesce(piece.topics, head.topics), lower_, upper_, pair_last_seq_, pair_exhausted_, reads_after_, reads_through_,
        head.log_position + 1, head.log_position + row_count_, row_count_, slices_, digests_, system_identifier_, timeline_, next_xid_,
        head.generation
    )
    returning * into planned;
    update relaybox_internal.hop_out
    set batch = planned.batch, log_position = planned.last_position,
        lower = case when piece.backlog_id is null then coalesce(upper_, lower) else lower end
    where hop = hop_name;
    -- what comes after this batch in its pair
    left_over := case
        when pair_exhausted_ then '{}'::int8multirange
        else coalesce(piece.seqs, int8multirange(int8range(1, pair_last_seq_, '[]'))) - int8multirange(int8range(0, reads_through_, '[]'))
    end;
    if piece.backlog_id is not null and left_over = '{}' then
        perform relaybox_internal.end_backlog_piece(hop_name, piece.backlog_id);
    elsif piece.backlog_id is not null then
        update relaybox_internal.backlog set seqs = left_over where hop = hop_name and backlog_id = piece.backlog_id;
    elsif left_over <> '{}' then
        insert into relaybox_internal.backlog (hop, topics, lower, upper, seqs) values (hop_name, planned.topics, lower_, upper_, left_over);
    end if;
    return planned;
end
$$;
