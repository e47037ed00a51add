-- Writes the plan of the next batch, which never changes after the caller's COMMIT. The batch reads
-- the first routed piece of the hop's backlog. If there is none (backlog_id_ is null), it reads a
-- new pair of snapshots, and the rest of the pair becomes a piece. Caller holds the hop through
-- lock_hop(). Raises RB005 if the previous batch is not confirmed or the plan does not follow it.
create or replace function relaybox_internal.record_batch(
    hop_name text, backlog_id_ bigint, lower_ pg_snapshot, upper_ pg_snapshot,
    pair_last_seq_ bigint,
    pair_exhausted_ boolean, reads_after_ bigint, reads_through_ bigint, row_count_ bigint,
    slices_ jsonb, digests_ text[], system_identifier_ bigint, timeline_ integer, next_xid_ xid8
)
returns relaybox_internal.batch
language plpgsql volatile
as $$
declare
    head relaybox_internal.hop_out;
    piece relaybox_internal.backlog;
    planned relaybox_internal.batch;
begin
    select * into head from relaybox_internal.hop_out h where h.hop = hop_name for update;
    select * into piece
    from relaybox_internal.backlog p
    where p.hop = hop_name and p.state = 'routed'
    order by p.backlog_id limit 1;
    perform relaybox_internal.require_next_plan(
        head, piece, backlog_id_, lower_, upper_, reads_after_
    );
    insert into relaybox_internal.batch (
        hop, batch, topics, lower, upper, pair_last_seq, pair_exhausted, reads_after, reads_through,
        first_position, last_position, row_count, slices, digests, system_identifier, timeline,
        next_xid, generation
    )
    values (
        hop_name, head.batch + 1, coalesce(piece.topics, head.topics), lower_, upper_,
        pair_last_seq_, pair_exhausted_, reads_after_, reads_through_,
        head.log_position + 1, head.log_position + row_count_, row_count_, slices_, digests_,
        system_identifier_, timeline_, next_xid_, head.generation
    )
    returning * into planned;
    update relaybox_internal.hop_out
    set batch = planned.batch, log_position = planned.last_position,
        lower = case when piece.backlog_id is null then coalesce(upper_, lower) else lower end
    where hop = hop_name;
    perform relaybox_internal.record_rest_of_pair(planned, piece);
    return planned;
end
$$;
