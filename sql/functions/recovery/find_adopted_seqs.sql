-- The seqs of the outbox, up to the anchor, that the destination has: those of the messages in the
-- temporary table relaybox_adopted. A message that was sent twice is matched copy by copy.
create or replace function relaybox_internal.find_adopted_seqs(anchor bigint) returns int8multirange
language sql stable
as $$
    select coalesce(range_agg(int8range(o.seq, o.seq, '[]')), '{}')
    from (
        select o.seq, o.message_id, o.sent_at,
            row_number() over (partition by o.message_id, o.sent_at order by o.seq) as copy
        from relaybox_internal.sent_rows o
        where o.seq <= anchor and o.message_id in (select message_id from relaybox_adopted)
    ) o
    join (
        select message_id, sent_at,
            row_number() over (partition by message_id, sent_at order by log_position) as copy
        from relaybox_adopted
    ) a on a.message_id = o.message_id and a.sent_at = o.sent_at and a.copy = o.copy
$$;
