-- Returns what shows whether this cluster continues a hop's ledger. reloaded: the store was loaded
-- from a dump, so that its numbers are of another cluster, or the hop was not reanchored since.
-- next_plan_id: of the batch after the one that arrived. source_log_position: of the log that the
-- hop reads. No row: the hop does not leave this store. Inlined: columns that the caller does not
-- select are not computed.
create or replace function relaybox_internal.ledger_continuity(hop_name text, arrived_batch bigint)
returns table (
    reloaded boolean, lower_xmax xid8, generation integer, planned_batch bigint,
    received_batch bigint, resend_through bigint, compacted_batch bigint, arrived_plan_id text,
    next_plan_id text, read_through bigint, source_log_position bigint, system_identifier bigint,
    timeline integer
)
language sql stable
as $$
    select
        relaybox_internal.is_reloaded() or h.reads_log is null
            and h.numbering <> (select n.numbering from relaybox_internal.numbering n),
        coalesce(pg_snapshot_xmax(h.lower), '3'::xid8),
        h.generation,
        h.batch,
        coalesce(
            (
                select c.through_batch
                from relaybox_internal.newest_confirmation(h.hop, 'received') c
            ),
            0
        ),
        h.resend_through,
        h.compacted_batch,
        (
            select b.plan_id::text
            from relaybox_internal.batch b where b.hop = h.hop and b.batch = arrived_batch
        ),
        (
            select b.plan_id::text
            from relaybox_internal.batch b where b.hop = h.hop and b.batch = arrived_batch + 1
        ),
        relaybox_internal.log_read_through(h.hop),
        (select i.published_position from relaybox_internal.hop_in i where i.log_id = h.reads_log),
        h.system_identifier, h.timeline
    from relaybox_internal.hop_out h
    where h.hop = hop_name
$$;
