-- The messages that a decision delivers, in no order: the classified messages that are released,
-- those of sorted senders, and those of senders in order, each at its arrival number. first_seq: the
-- arrival number of the batch's first message. Inlined in append_deliverable().
create or replace function relaybox_internal.list_released(
    log_id_ integer, first_position bigint, first_seq bigint
)
returns table (
    log_id integer, log_position bigint, release_seq bigint, epoch integer, release_rank bigint,
    arrival_seq bigint
)
language sql stable
as $$
    select j.log_id, j.log_position, j.release_seq, j.epoch, j.release_rank, j.arrival_seq
    from pg_temp.classified j where j.outcome is null and j.release_seq is not null
    union all
    select log_id_, r.log_position, r.release_seq, s.epoch, r.rank, 0
    from pg_temp.sorted_sender s
    cross join lateral unnest(s.released_positions, s.release_seqs)
    with ordinality r (log_position, release_seq, rank)
    union all
    select log_id_, p, first_seq + p - first_position, 0, 0, 0
    from pg_temp.decision_sender b
    join pg_temp.arrived_sender a on a.sender = b.sender and a.epoch = b.epoch
    cross join lateral unnest(a.log_positions) p
    where b.is_in_order
$$;
