-- For orders that do not wait for earlier indexes: finds which indexes of a range were accepted
-- before, beyond the watermark of their sender.
create or replace function relaybox_internal.find_seen_indexes(
    log_id_ integer, first_position bigint, last_position bigint
)
returns void
language plpgsql volatile
as $$
begin
    insert into pg_temp.already_seen (sender_id, chunk, indexes)
    select arrived.sender_id, arrived.chunk, arrived.indexes * n.indexes
    from (
        select b.sender_id, l.index >> 12 as chunk,
            range_agg(int8range(l.index, l.index + 1)) as indexes
        from pg_temp.decision_sender b
        join relaybox_internal.sender_state s on s.sender_id = b.sender_id and s.seen_beyond > 0
        join relaybox_internal.log l on l.log_id = log_id_ and l.log_position >= first_position
            and l.log_position <= last_position
            and l.sender = b.sender and l.epoch = b.epoch
        where not b.is_in_order and not b.is_stalled
        group by b.sender_id, l.index >> 12
    ) arrived
    join relaybox_internal.seen n on n.sender_id = arrived.sender_id and n.chunk = arrived.chunk
        and n.indexes && arrived.indexes;
end
$$;
