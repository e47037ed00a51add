-- Opens the planning transaction of a hop: checks where its source stands, locks its hop_out row
-- and returns it. Caller: a fresh READ COMMITTED transaction that takes its snapshot in a LATER
-- statement (a snapshot of the same statement may be older than the lock). Raises RB001, RB002 (the
-- transaction is not fresh), RB003, RB004 (no such hop), RB006 (retired), RB009 (the default of
-- outbox.xid or the view sent_rows was changed), RB011 (the source lost history).
create or replace function relaybox_internal.lock_hop(hop_name text)
returns table (
    reads_log integer, topics text[], batch bigint, log_position bigint, lower pg_snapshot,
    attempt bigint, received_batch bigint, generation integer, anchor_seq bigint,
    resend_through bigint, system_identifier bigint, timeline integer, next_xid xid8
)
language plpgsql volatile
as $$
declare
    head relaybox_internal.hop_out;
    cluster record;
begin
    perform relaybox_internal.require_fresh_transaction(
        'planning', 'a snapshot taken after a write counts the own rows as visible'
    );
    set local synchronous_commit = on;
    select * into head from relaybox_internal.hop_out h where h.hop = hop_name for update;
    if not found then
        raise exception using errcode = 'RB004',
            message = format('hop %s does not leave this store', hop_name),
            hint = 'Run: relaybox init';
    end if;
    perform relaybox_internal.refuse_retired_hop(head);
    perform relaybox_internal.refuse_unlogged();
    if head.reads_log is null then
        perform relaybox_internal.refuse_changed_xid();
        perform relaybox_internal.refuse_changed_view();
    end if;
    select * into cluster from relaybox_internal.cluster_fingerprint();
    perform relaybox_internal.refuse_other_source(
        head, cluster.system_identifier, cluster.timeline, cluster.next_xid
    );
    return query
    select
        head.reads_log, head.topics, head.batch, head.log_position, head.lower, head.attempt,
        coalesce((
            select c.through_batch
            from relaybox_internal.newest_confirmation(hop_name, 'received') c
        ), 0),
        head.generation, head.anchor_seq, head.resend_through,
        cluster.system_identifier, cluster.timeline, cluster.next_xid;
end
$$;
