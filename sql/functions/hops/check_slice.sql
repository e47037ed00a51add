-- Notes which messages of a slice do not conform to the schema of their topic. checked_topics: JSON
-- of hop_check, each topic with warn or set_aside. In the transaction that brought the rows, so each slice is
-- checked once, however often it is copied. A payload that can't be checked does not conform
-- (payload_problem()): no payload stops a hop. Dynamic: a generic plan would lock all segments.
create or replace function relaybox_internal.check_slice(
    log_id_ integer, first_position bigint, last_position bigint, checked_topics jsonb
)
returns void
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set enable_indexscan = on
set jit = off
as $$
begin
    execute '
        insert into relaybox_internal.nonconforming_message (
            log_id, log_position, topic, is_set_aside, problem
        )
        select l.log_id, l.log_position, l.topic, $4 ->> l.topic = ''set_aside'', left(p.problem, 500)
        from relaybox_internal.log l
        cross join lateral (
            select relaybox_internal.payload_problem(
                l.topic, l.headers, l.payload, l.payload_bytes
            ) as problem offset 0
        ) p
        where l.log_id = $1 and l.log_position >= $2 and l.log_position <= $3
            and $4 ? l.topic and p.problem is not null'
    using log_id_, first_position, last_position, checked_topics;
end
$$;
