-- How far each hop that leaves this store is: its newest plan, its newest confirmations, and since
-- when its oldest unreceived and unsettled batches wait. Hops that are retired are left out. Locks
-- nothing.
create or replace function relaybox_internal.hop_progress()
returns table (
    hop text, reads_log integer, stopped_consumer text,
    planned_position bigint, received_position bigint, settled_position bigint,
    unreceived_since timestamptz, unsettled_since timestamptz, settled_at timestamptz,
    progress_at timestamptz
)
language sql stable
as $$
    select
        h.hop, h.reads_log, h.stopped_consumer,
        h.log_position, received.through_position, settled.through_position,
        unreceived.planned_at, unsettled.recorded_at, settled.recorded_at,
        greatest(newest.planned_at, received.recorded_at)
    from relaybox_internal.hop_out h
    left join relaybox_internal.batch newest on newest.hop = h.hop and newest.batch = h.batch
    left join lateral relaybox_internal.newest_confirmation(h.hop, 'received') received on true
    left join lateral relaybox_internal.newest_confirmation(h.hop, 'settled') settled on true
    left join lateral (
        select b.planned_at from relaybox_internal.batch b
        where b.hop = h.hop and b.batch > coalesce(received.through_batch, 0)
        order by b.batch limit 1
    ) unreceived on true
    left join lateral relaybox_internal.confirmation_of(
        h.hop, 'received', coalesce(settled.through_position, 0) + 1
    ) unsettled on true
    where h.retired_at is null
$$;
