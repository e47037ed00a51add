-- The messages that a decision delivers, in no order: the classified messages that are released,
-- and, if has_in_order, the messages of senders in order, each at its arrival number. first_seq:
-- the arrival number of the batch's first message. Inlined in append_deliverable().
create or replace function relaybox_internal.list_released(
    log_id_ integer, first_position bigint, last_position bigint, first_seq bigint,
    has_in_order boolean
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
    select log_id_, p, first_seq + p - first_position, 0, 0::bigint, 0::bigint
    from generate_series(first_position, last_position) p
    where has_in_order
        and not exists (
            select from pg_temp.classified j where j.log_id = log_id_ and j.log_position = p
        )
        and p not in (
            select l.log_position from relaybox_internal.log l
            join pg_temp.decision_sender b on b.sender = l.sender and b.epoch = l.epoch
                and b.is_stalled
            where l.log_id = log_id_ and l.log_position >= first_position
                and l.log_position <= last_position
        )
$$;
