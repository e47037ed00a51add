-- Has the messages of those senders classified one by one that a batch brings a message of which does
-- not conform to its schema: it is not delivered, so they are not in order.
create or replace function relaybox_internal.mark_nonconforming_senders(
    log_id_ integer, first_position bigint, last_position bigint
)
returns void
language sql volatile
as $$
    update pg_temp.decision_sender b set is_in_order = false
    from (
        select distinct l.sender, l.epoch
        from relaybox_internal.nonconforming_message n
        cross join lateral (
            select m.sender, m.epoch from relaybox_internal.log m
            where m.log_id = n.log_id and m.log_position = n.log_position offset 0
        ) l
        where n.log_id = log_id_ and n.log_position >= first_position
            and n.log_position <= last_position and n.is_set_aside
    ) s
    where b.sender = s.sender and b.epoch = s.epoch
$$;
