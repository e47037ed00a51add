-- Message ids that stand in a log more than once, through a position, and where. One hash aggregate over the log.
-- copies: the positions of the same message once more. Two messages to which a producer gave one id were not sent at the same microsecond.
create or replace function relaybox.repeated_messages(log_id integer, through_position bigint)
returns table (message_id uuid, sender text, positions bigint[], copies bigint[])
language sql stable
as $$
    select n.message_id, min(n.sender), array_agg(n.position order by n.position),
        coalesce(array_agg(n.position order by n.position) filter (where n.number > 1), '{}')
    from (
        select l.message_id, l.sender, l.position,
            row_number() over (
                partition by l.message_id, l.sent_at,
                    md5(record_send(row(l.topic, l.sender, l.key, l.payload, l.payload_bytes, l.headers, l.clock)))
                order by l.position
            ) as number
        from relaybox.log l
        where l.hop_id = log_id
            and l.message_id in (
                select d.message_id from relaybox.log d
                where d.hop_id = log_id and d.position <= through_position
                group by d.message_id
                having count(*) > 1
            )
            and l.position <= through_position
    ) n
    group by n.message_id
$$;
