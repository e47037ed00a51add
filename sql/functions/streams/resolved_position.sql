-- Returns the position of a log through which every message was delivered, dropped or set aside:
-- none is held, and none waits behind a stalled sender.
create or replace function relaybox_internal.resolved_position(log_id_ integer) returns bigint
language sql stable
as $$
    select least(
        l.decided_position,
        (select min(h.log_position) - 1 from relaybox_internal.held h where h.log_id = log_id_),
        (
            select min(s.stalled_after) from relaybox_internal.sender_state s
            where s.stream_id = l.stream_id and s.origin = l.origin and s.stalled_after is not null
        )
    )
    from relaybox_internal.stream_log l
    where l.log_id = log_id_
$$;
