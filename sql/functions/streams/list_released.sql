-- What a decision delivers, in no order: the classified messages that are released, and, has_in_order, those of the batch that needed no
-- look, each when it arrived. first_seq: arrival number of the batch's first message. Inlined in place_messages().
create or replace function relaybox.list_released(
    log_id integer, first_position bigint, last_position bigint, first_seq bigint, has_in_order boolean
)
returns table (hop_id integer, "position" bigint, release_seq bigint, epoch integer, release_rank bigint, arrival_seq bigint)
language sql stable
as $$
    select j.hop_id, j.position, j.release_seq, j.epoch, j.release_rank, j.arrival_seq
    from pg_temp.classified j where j.outcome is null and j.release_seq is not null
    union all
    select log_id, p, first_seq + p - first_position, 0, 0::bigint, 0::bigint
    from generate_series(first_position, last_position) p
    where has_in_order
        and not exists (select from pg_temp.classified j where j.hop_id = log_id and j.position = p)
        and p not in (
            select l.position
            from relaybox.log l join pg_temp.decision_sender b on b.sender = l.sender and b.epoch = l.epoch and b.is_stalled
            where l.hop_id = log_id and l.position >= first_position and l.position <= last_position
        )
$$;
