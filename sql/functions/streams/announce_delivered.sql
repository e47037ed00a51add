-- Tells those who wait for what a log brought: the consumers of its stream, and the polls of hops
-- that read the log on and have no driver. Called after the COMMIT of a decision, never in it: a
-- COMMIT that notifies holds up every other one in its database that does, and this one waits for
-- no disk and no standby. A hint, as wake_consumers() is.
create or replace function relaybox_internal.announce_delivered(log_id_ integer) returns void
language plpgsql volatile
as $$
begin
    set local synchronous_commit = off;
    perform relaybox_internal.wake_consumers(l.stream_id)
    from relaybox_internal.stream_log l where l.log_id = log_id_;
    perform pg_notify('relaybox_work', '')
    where pg_notification_queue_usage() < 0.5 and exists (
        select from relaybox_internal.hop_out o
        where o.reads_log = log_id_ and o.retired_at is null
            and not relaybox_internal.hop_is_driven(o.hop)
    );
end
$$;
