-- Settles every received batch of a hop that ends at or below a position. One row per call:
-- watermarks travel, not messages. A hop that names subscriptions settles only what they have
-- processed (confirm_processed). Never takes anything back. Returns the position that is settled
-- through. Raises RB004.
create or replace function relaybox_internal.confirm_settled(
    hop_name text, through_position_ bigint, happened_at_ timestamptz, recorded_by_ text
)
returns bigint
language plpgsql volatile
as $$
declare
    settled_batch relaybox_internal.batch;
    bounding text;
begin
    perform relaybox_internal.require_writable_primary();
    set local synchronous_commit = on;
    select case when h.processed_by is null then 'received' else 'processed' end into bounding
    from relaybox_internal.hop_out h where h.hop = hop_name for update;
    if not found then
        raise exception using errcode = 'RB004',
            message = format('hop %s does not leave this store', hop_name),
            hint = 'Run: relaybox init';
    end if;
    select b.* into settled_batch
    from relaybox_internal.batch b
    where b.hop = hop_name
        and b.last_position <= least(through_position_, coalesce((
            select c.through_position
            from relaybox_internal.newest_confirmation(hop_name, bounding) c
        ), 0))
    order by b.last_position desc
    limit 1;
    if found then
        insert into relaybox_internal.confirmation (
            hop, state, through_position, through_batch, happened_at, recorded_by
        )
        values (
            hop_name, 'settled', settled_batch.last_position, settled_batch.batch, happened_at_,
            recorded_by_
        )
        on conflict do nothing;
    end if;
    return coalesce(
        (
            select c.through_position
            from relaybox_internal.newest_confirmation(hop_name, 'settled') c
        ),
        0
    );
end
$$;
