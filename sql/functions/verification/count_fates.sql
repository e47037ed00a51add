-- Counts the messages of a log, through a position, that have one of these ids, and what their
-- stream has decided of them; those that are in none of the last three counts wait. Reads the log
-- and the fates of its stream once.
create or replace function relaybox_internal.count_fates(
    stream_name text, log_id_ integer, through_position bigint, message_ids uuid[],
    out messages bigint, out delivered bigint, out dropped bigint, out set_aside bigint
)
language sql stable
set work_mem = '256MB'
set enable_nestloop = off
set jit = off
as $$
    with named as materialized (
        select l.log_position
        from relaybox_internal.log l
        join (select distinct u.id from unnest(message_ids) u (id)) wanted
            on wanted.id = l.message_id
        where l.log_id = log_id_ and l.log_position <= through_position
    )
    select
        count(distinct n.log_position),
        count(*) filter (where f.fate like 'stream position %'),
        count(*) filter (where f.fate = 'duplicate'),
        count(*) filter (where f.fate = 'set aside')
    from named n
    left join relaybox_internal.list_fates(stream_name) f
        on f.log_id = log_id_ and f.log_position = n.log_position
$$;
