-- Message ids that are in a log more than once, through a position, and where. copies: the
-- positions of the same message once more. Two messages to which a producer gave one id were not
-- sent in the same microsecond. One hash aggregate over the log.
create or replace function relaybox_internal.repeated_messages(
    log_id_ integer, through_position bigint
)
returns table (message_id uuid, sender text, log_positions bigint[], copies bigint[])
language sql stable
as $$
    select n.message_id, min(n.sender), array_agg(n.log_position order by n.log_position),
        coalesce(
            array_agg(n.log_position order by n.log_position) filter (where n.number > 1), '{}'
        )
    from (
        select l.message_id, l.sender, l.log_position,
            row_number() over (
                partition by l.message_id, l.sent_at,
                    md5(
                        record_send(
                            row(
                                l.topic, l.sender, l.key, l.payload, l.payload_bytes, l.headers,
                                l.clock
                            )
                        )
                    )
                order by l.log_position
            ) as number
        from relaybox_internal.log l
        where l.log_id = log_id_
            and l.message_id in (
                select d.message_id from relaybox_internal.log d
                where d.log_id = log_id_ and d.log_position <= through_position
                group by d.message_id
                having count(*) > 1
            )
            and l.log_position <= through_position
    ) n
    group by n.message_id
$$;
