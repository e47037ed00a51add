-- Tells the consumers of a stream that listen to look for messages, when the caller's transaction
-- commits. A hint: consumers also look by themselves. So nothing is sent while others let the
-- server's queue of notifications run full, since a full queue fails the caller's COMMIT; and not
-- where the COMMIT waits for a standby, since each other one that notifies would wait with it.
create or replace function relaybox_internal.wake_consumers(stream_id_ integer) returns void
language sql volatile
as $$
    select pg_notify(relaybox_internal.channel_of(stream_id_), '')
    where pg_notification_queue_usage() < 0.5
        and (
            current_setting('synchronous_standby_names') = ''
            or current_setting('synchronous_commit') in ('off', 'local')
        )
$$;
