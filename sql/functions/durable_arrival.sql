-- The newest arrival of a log, on the way to be confirmed. Writes, so that the caller's COMMIT waits until the arrival is as
-- durable as this store promises: another driver's publish may be visible while its wait for a standby was cancelled.
-- Null when nothing is published. Locks the hop_in row FOR UPDATE.
create or replace function relaybox.durable_arrival(log_id integer) returns relaybox.arrival
language plpgsql volatile
as $$
declare
    newest relaybox.arrival;
begin
    perform relaybox.require_writable_primary();
    set local synchronous_commit = on;
    update relaybox.hop_in set published_batch = published_batch where hop_id = log_id;
    select a.* into newest
    from relaybox.hop_in i
    join relaybox.arrival a on a.hop_id = i.hop_id and a.batch = i.published_batch
    where i.hop_id = log_id;
    return newest;
end
$$;
