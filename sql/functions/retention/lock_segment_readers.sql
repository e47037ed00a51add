-- Locks what could begin to need a segment of the outbox (log_id_ null) or of a log, in the order
-- of docs/protocol.md: the table against makers of segments; the hops that read it, its stream, and
-- the hop that fills it. No hop, subscription or replay begins meanwhile.
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
    perform relaybox_internal.lock_stream_and_hop(log_id_);
end
$$;
