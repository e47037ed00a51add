-- Opens the planning transaction of a hop: checks the stream position, locks its hop_out row, returns it.
-- Caller: a fresh READ COMMITTED transaction; takes its snapshot in a LATER statement (in one statement time ran backwards).
-- Raises RB001, RB002 (transaction not fresh), RB003, RB004 (no such hop), RB006 (retired), RB011 (the source lost history).
create or replace function relaybox_internal.lock_hop(hop_name text)
returns table (
    reads_log integer, topics text[], batch bigint, log_position bigint, lower pg_snapshot, attempt bigint,
    received_batch bigint, generation integer, anchor_seq bigint, resend_through bigint,
    system_identifier bigint, timeline integer, next_xid xid8
)
language plpgsql volatile
as $$
declare
    hop_ relaybox_internal.hop_out;
    here record;
    store_name text := (select s.store from relaybox_internal.store s);
    is_loaded boolean;
begin
    perform relaybox_internal.require_writable_primary();
    if pg_current_xact_id_if_assigned() is not null or current_setting('transaction_isolation') <> 'read committed' then
        raise exception using errcode = 'RB002',
            message = 'planning needs a fresh READ COMMITTED transaction: a snapshot taken after a write counts the own rows as visible';
    end if;
    set local synchronous_commit = on;
    select * into hop_ from relaybox_internal.hop_out h where h.hop = hop_name for update;
    if not found then
        raise exception using errcode = 'RB004',
            message = format('hop %s does not leave this store', hop_name), hint = 'Run: relaybox init';
    end if;
    perform relaybox_internal.refuse_retired_hop(hop_);
    select * into here from relaybox_internal.cluster_fingerprint();
    is_loaded := relaybox_internal.is_reloaded();
    if hop_.reads_log is null and (is_loaded or hop_.numbering <> (select n.numbering from relaybox_internal.numbering n)) then
        raise exception using errcode = 'RB011',
            message = format(
                'hop %s: %s was loaded from a dump: its rows may carry transaction numbers of another cluster', hop_name, store_name
            ),
            hint = format('Nothing was moved. See what is missing with: relaybox reanchor %s', hop_name);
    end if;
    if (here.system_identifier, here.timeline) <> (hop_.system_identifier, hop_.timeline)
        or here.next_xid < coalesce(pg_snapshot_xmax(hop_.lower), '3'::xid8)
    then
        raise exception using errcode = 'RB011',
            message = format(
                'hop %s: its ledger was written by cluster %s on timeline %s with transactions below %s; '
                '%s is cluster %s on timeline %s with next transaction %s: %s was restored, promoted or replaced',
                hop_name, hop_.system_identifier, hop_.timeline, coalesce(pg_snapshot_xmax(hop_.lower), '3'::xid8),
                store_name, here.system_identifier, here.timeline, here.next_xid, store_name
            ),
            hint = 'Nothing was moved. ' || case
                when is_loaded or here.next_xid < coalesce(pg_snapshot_xmax(hop_.lower), '3'::xid8)
                    then format('See what is missing with: relaybox reanchor %s', hop_name)
                else format('If %s lost nothing: relaybox attest %s. Else: relaybox reanchor %s', store_name, store_name, hop_name)
            end;
    end if;
    return query
    select
        hop_.reads_log, hop_.topics, hop_.batch, hop_.log_position, hop_.lower, hop_.attempt,
        coalesce((select c.through_batch from relaybox_internal.newest_confirmation(hop_name, 'received') c), 0),
        hop_.generation, hop_.anchor_seq, hop_.resend_through,
        here.system_identifier, here.timeline, here.next_xid;
end
$$;
