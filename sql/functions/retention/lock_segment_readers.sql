-- Locks what could begin to need a segment of the outbox (log_id_ null) or of a log, in the order of
-- docs/protocol.md: the table against makers of segments; the hops that read it, its stream, and the hop
-- that fills it, so that no hop, subscription or replay begins meanwhile.
create or replace function relaybox_internal.lock_segment_readers(log_id_ integer, parent regclass)
returns void
language plpgsql volatile
as $$
begin
    execute format('lock table only %s in share update exclusive mode', parent);
    perform from relaybox_internal.hop_out h
    where h.reads_log is not distinct from log_id_
    order by h.hop
    for update;
    perform from relaybox_internal.stream s
    where
        s.stream_id = (
            select l.stream_id from relaybox_internal.stream_log l where l.log_id = log_id_
        )
    for update;
    perform from relaybox_internal.hop_in i where i.log_id = log_id_ for update;
end
$$;
