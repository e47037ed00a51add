-- Returns whether a batch of a causal stream can be delivered as it came: all its senders are in
-- order, nothing is held that it could release, and its clocks are met.
create or replace function relaybox_internal.is_causal_batch(
    stream_ relaybox_internal.stream, log_id_ integer, first_position bigint, last_position bigint
)
returns boolean
language sql stable
as $$
    select not stream_.recheck
        and not exists (select from pg_temp.decision_sender b where not b.is_in_order)
        and not exists (
            select from relaybox_internal.held h where h.stream_id = stream_.stream_id
        )
        and relaybox_internal.clocks_are_met(
            stream_.stream_id, log_id_, first_position, last_position
        )
$$;
