-- Sets aside what a decision refused. The message stays in its log.
create or replace function relaybox.set_aside_judged(here relaybox.stream) returns void
language sql volatile
as $$
    insert into relaybox.dead_letter (stream_id, hop_id, "position", reason)
    select here.stream_id, j.hop_id, j.position, j.outcome from pg_temp.classified j
    where j.outcome is not null and j.outcome <> 'duplicate'
$$;
