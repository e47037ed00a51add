-- What of the hops that read the outbox (log_id_ null) or a log can make them need what they had
-- settled: their number, generations, what an operator has sent again, topics and windows. Their
-- watermarks only go on; the backlog grows only when one of these changes.
create or replace function relaybox_internal.hops_fingerprint(log_id_ integer) returns text
language sql stable
as $$
    select string_agg(
        format('%s %s %s %s %s', h.hop, h.generation, h.resend_through, h.topics, h.replay_window_seconds), ', ' order by h.hop
    )
    from relaybox_internal.hop_out h where h.reads_log is not distinct from log_id_ and h.retired_at is null
$$;
