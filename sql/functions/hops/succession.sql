-- What tells whether this cluster goes on where a hop's ledger ends. reloaded: the newest batch was not written by the
-- transaction that it names, so its numbers are of another cluster. No row: the hop does not leave this store.
create or replace function relaybox.succession(hop_name text, arrived_batch bigint)
returns table (
    reloaded boolean, lower_xmax xid8, generation integer, received_batch bigint, arrived_plan_id text,
    system_identifier bigint, timeline integer
)
language sql stable
as $$
    select
        coalesce((
            select b.xmin::text::bigint <> b.xid::text::numeric % 4294967296
            from relaybox.batch b order by b.planned_at desc limit 1
        ), false),
        coalesce(pg_snapshot_xmax(h.lower), '3'::xid8),
        h.generation,
        coalesce((select c.through_batch from relaybox.newest_confirmation(h.hop, 'received') c), 0),
        (select b.plan_id::text from relaybox.batch b where b.hop = h.hop and b.batch = arrived_batch),
        h.system_identifier, h.timeline
    from relaybox.hop_out h
    where h.hop = hop_name
$$;
