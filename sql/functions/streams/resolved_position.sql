-- Through which position of a log every message was delivered, dropped or set aside: none is held, none waits behind a stalled sender.
create or replace function relaybox.resolved_position(log_id integer) returns bigint
language sql stable
as $$
    select least(
        l.decided_position,
        (select min(h.position) - 1 from relaybox.held h where h.hop_id = log_id),
        (
            select min(s.stalled_after) from relaybox.sender_state s
            where s.stream_id = l.stream_id and s.origin = l.origin and s.stalled_after is not null
        )
    )
    from relaybox.stream_log l
    where l.hop_id = log_id
$$;
