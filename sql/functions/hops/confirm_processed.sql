-- Records that the subscriptions that the hop names have processed every received batch that ends
-- at or below a position. One row per call, in the transaction that settles. Never takes anything
-- back.
create or replace function relaybox_internal.confirm_processed(
    hop_name text, through_position_ bigint, happened_at_ timestamptz, recorded_by_ text
)
returns void
language plpgsql volatile
as $$
begin
    perform relaybox_internal.require_writable_primary();
    set local synchronous_commit = on;
    insert into relaybox_internal.confirmation (
        hop, state, through_position, through_batch, happened_at, recorded_by
    )
    select hop_name, 'processed', b.last_position, b.batch, happened_at_, recorded_by_
    from relaybox_internal.batch b
    where b.hop = hop_name
        and b.last_position <= least(through_position_, coalesce((
            select c.through_position
            from relaybox_internal.newest_confirmation(hop_name, 'received') c
        ), 0))
    order by b.last_position desc
    limit 1
    on conflict do nothing;
end
$$;
