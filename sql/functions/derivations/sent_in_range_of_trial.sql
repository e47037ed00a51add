-- The messages that the version before a trial has sent for the range of the trial, from a stream
-- position on. Of messages with one id, which a replay sends again, the newest.
create or replace function relaybox_internal.sent_in_range_of_trial(
    trial_id_ integer, compared_from bigint
)
returns table (
    seq bigint, topic text, key text, headers jsonb, payload text, payload_bytes bytea, cause bigint
)
language sql volatile
rows 100000
set enable_nestloop = on
as $$
    select distinct on (o.message_id)
        o.seq, o.topic, o.key, o.headers, o.payload, o.payload_bytes, c.cause
    from relaybox_internal.derivation_trial t
    join relaybox_internal.derivation_attempt a on a.derivation_id = t.derivation_id
    join relaybox_internal.sent_rows f on f.seq = a.first_seq
    -- of the transaction of the attempt: others insert in between
    join relaybox_internal.sent_rows o on o.seq between a.first_seq and a.last_seq and o.xid = f.xid
    cross join lateral (
        select
            (o.headers -> 'derived_from' ->> 'stream_position')::bigint as cause,
            (o.headers -> 'derived_from' -> 'stream_positions' ->> 0)::bigint as first_cause,
            (o.headers -> 'derived_from' -> 'stream_positions' ->> 1)::bigint as last_cause
    ) c
    where t.trial_id = trial_id_
        and a.state = 'published'
        and a.stream_positions && int8multirange(
            int8range(compared_from, t.last_stream_position + 1) -- empty beyond the last
        )
        and coalesce(c.first_cause, c.cause) <= t.last_stream_position
        and coalesce(c.last_cause, c.cause) >= compared_from
    order by o.message_id, o.seq desc
$$;
