-- Locks the stream of a log, then the hop that fills it, until the transaction ends. The order is
-- that of docs/protocol.md.
create or replace function relaybox_internal.lock_stream_and_hop(log_id_ integer) returns void
language plpgsql volatile
as $$
begin
    perform from relaybox_internal.stream s
    where s.stream_id = (
        select l.stream_id from relaybox_internal.stream_log l where l.log_id = log_id_
    )
    for update;
    perform from relaybox_internal.hop_in i where i.log_id = log_id_ for update;
end
$$;
