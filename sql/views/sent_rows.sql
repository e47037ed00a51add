-- The rows of the outbox, for whoever moves, counts or shows them: drivers, viewers and readers. The
-- view has the rights of its owner, who owns the outbox too. Row security of the outbox (bind_senders)
-- doesn't hold for the owner, so no login that reads here needs bypassrls. If somebody forces it on the
-- owner, sessions of Relaybox get an error, never fewer rows: their row_security is off. No barrier
-- and no condition: the planner sees a query of the outbox itself. xmin is the row's own, for late_rows().
create or replace view relaybox_internal.sent_rows as
select
    o.seq, o.xid, o.message_id, o.index, o.sent_at, o.epoch, o.topic, o.sender, o.key, o.headers,
    o.payload, o.payload_bytes, o.clock, o.xmin
from relaybox.outbox o;

comment on view relaybox_internal.sent_rows is
'The rows of relaybox.outbox, all of them, also where senders are bound to roles. Relaybox reads the '
'outbox here.';
