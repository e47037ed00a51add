-- Sets aside the messages that a decision refused. They stay in their log. detail: of a message that
-- does not conform to its schema, what is wrong with it.
create or replace function relaybox_internal.set_aside_classified(stream_ relaybox_internal.stream)
returns void
language sql volatile
as $$
    insert into relaybox_internal.dead_letter (stream_id, log_id, log_position, reason, detail)
    select
        stream_.stream_id, j.log_id, j.log_position, j.outcome,
        case
            when j.outcome = 'does_not_conform' then (
                select format('topic %s, %s', n.topic, n.problem)
                from relaybox_internal.nonconforming_message n
                where n.log_id = j.log_id and n.log_position = j.log_position
            )
        end
    from pg_temp.classified j
    where j.outcome is not null and j.outcome <> 'duplicate'
$$;
