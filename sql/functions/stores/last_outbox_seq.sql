-- The last seq of the outbox that anybody took, at least 1; a sequence that was restored behind its
-- rows is moved past them. Caller holds the outbox in exclusive mode: whoever wrote to it has
-- ended.
create or replace function relaybox_internal.last_outbox_seq() returns bigint
language sql volatile
as $$
    select setval('relaybox.outbox_seq', greatest(q.last_value, (select max(o.seq) from relaybox_internal.sent_rows o), 1)) from relaybox.outbox_seq q
$$;
