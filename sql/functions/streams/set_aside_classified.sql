-- Sets aside the messages that a decision refused. They stay in their log.
create or replace function relaybox_internal.set_aside_classified(stream_ relaybox_internal.stream)
returns void
language sql volatile
as $$
    insert into relaybox_internal.dead_letter (stream_id, log_id, log_position, reason)
    select stream_.stream_id, j.log_id, j.log_position, j.outcome from pg_temp.classified j
    where j.outcome is not null and j.outcome <> 'duplicate'
$$;
