-- Raises RB011 if the source of a hop lost history: the store was loaded from a dump, is on another
-- cluster or timeline than the hop's ledger, or its cluster is before the hop's newest snapshot.
-- Caller holds the hop's row.
create or replace function relaybox_internal.refuse_other_source(
    head relaybox_internal.hop_out, system_identifier_ bigint, timeline_ integer, next_xid_ xid8
)
returns void
language plpgsql stable
as $$
declare
    store_name constant text := (select s.store from relaybox_internal.store s);
    is_loaded constant boolean := relaybox_internal.is_reloaded();
    -- 3 is the first transaction number of a cluster
    ledger_xid constant xid8 := coalesce(pg_snapshot_xmax(head.lower), '3'::xid8);
begin
    if head.reads_log is null and (
        is_loaded or head.numbering <> (select n.numbering from relaybox_internal.numbering n)
    ) then
        raise exception using errcode = 'RB011',
            message = format(
                'hop %s: %s was loaded from a dump: '
                'its rows may carry transaction numbers of another cluster', head.hop, store_name
            ),
            hint = format(
                'Nothing was moved. See what is missing with: relaybox reanchor %s', head.hop
            );
    end if;
    if (system_identifier_, timeline_) <> (head.system_identifier, head.timeline)
        or next_xid_ < ledger_xid
    then
        raise exception using errcode = 'RB011',
            message = format(
                'hop %s: its ledger was written by cluster %s on timeline %s with transactions '
                'below %s; %s is cluster %s on timeline %s with next transaction %s: '
                '%s was restored, promoted or replaced',
                head.hop, head.system_identifier, head.timeline, ledger_xid,
                store_name, system_identifier_, timeline_, next_xid_, store_name
            ),
            hint = 'Nothing was moved. ' || case
                when is_loaded or next_xid_ < ledger_xid
                    then format('See what is missing with: relaybox reanchor %s', head.hop)
                else format(
                    'If %s lost nothing: relaybox attest %s --reason "...". Else: relaybox reanchor %s',
                    store_name, store_name, head.hop
                )
            end;
    end if;
end
$$;
