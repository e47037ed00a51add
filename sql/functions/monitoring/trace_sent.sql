-- The rows of this outbox with a message id: one, unless a producer chose an id twice. Committed
-- ones only. committed_at is null without track_commit_timestamp.
create or replace function relaybox_internal.trace_sent(message_id_ uuid)
returns table (
    seq bigint, xid xid8, topic text, sender text, epoch integer, index bigint,
    sent_at timestamptz, committed_at timestamptz
)
language sql stable
as $$
    select
        o.seq, o.xid, o.topic, o.sender, o.epoch, o.index, o.sent_at,
        case
            when current_setting('track_commit_timestamp') = 'on'
                then pg_xact_commit_timestamp(o.xid::xid)
        end
    from relaybox_internal.sent_rows o
    where o.message_id = message_id_
    order by o.seq
$$;
