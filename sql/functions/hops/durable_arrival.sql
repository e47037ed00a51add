-- Returns the newest arrival of a log before it is confirmed; null if nothing is published. Locks
-- the hop_in row FOR NO KEY UPDATE; transactions of consumers that set a message aside have it FOR
-- KEY SHARE. A lock is written to WAL, so that the caller's COMMIT waits until the arrival is as
-- durable as this store promises. Without it, a publish of another driver could be visible although
-- its wait for a standby was cancelled. Raises RB003 if a crash would empty what arrived.
create or replace function relaybox_internal.durable_arrival(log_id_ integer)
returns relaybox_internal.arrival
language plpgsql volatile
as $$
declare
    newest relaybox_internal.arrival;
begin
    perform relaybox_internal.require_writable_primary();
    set local synchronous_commit = on;
    perform from relaybox_internal.hop_in i where i.log_id = log_id_ for no key update;
    select a.* into newest
    from relaybox_internal.hop_in i
    join relaybox_internal.arrival a on a.log_id = i.log_id and a.batch = i.published_batch
    where i.log_id = log_id_;
    perform relaybox_internal.refuse_unlogged(
        log_id_, newest.first_position, newest.last_position
    );
    return newest;
end
$$;
