-- The messages of a range of a log that do not conform to their schema and are not to be delivered, as
-- JSON [[position, topic, problem], ...]: what the next store of the route has to know of the log that
-- it reads. Null: there are none.
create or replace function relaybox_internal.list_set_aside(
    log_id_ integer, first_position bigint, last_position bigint
)
returns text
language sql stable
as $$
    select json_agg(json_build_array(n.log_position, n.topic, n.problem))::text
    from relaybox_internal.nonconforming_message n
    where n.log_id = log_id_ and n.log_position >= first_position
        and n.log_position <= last_position and n.is_set_aside
$$;
