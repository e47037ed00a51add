-- Message ids that stand in a log more than once, through a position, and where. One hash aggregate over the log.
create or replace function relaybox.doubled_messages(log_id integer, through_position bigint)
returns table (message_id uuid, positions bigint[])
language sql stable
as $$
    select l.message_id, array_agg(l.position order by l.position)
    from relaybox.log l
    where l.hop_id = log_id
        and l.message_id in (
            select d.message_id from relaybox.log d
            where d.hop_id = log_id and d.position <= through_position
            group by d.message_id
            having count(*) > 1
        )
        and l.position <= through_position
    group by l.message_id
$$;
