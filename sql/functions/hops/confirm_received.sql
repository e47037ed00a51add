-- Records at the source that the destination has a batch durably. Idempotent. Raises RB012 (the
-- arrival is of another plan than the ledger's), RB011 (the ledger has no such batch), RB018 (the
-- hop goes to another store than the one with destination_id_; null, of an older driver, is not
-- compared).
create or replace function relaybox_internal.confirm_received(
    hop_name text, batch_ bigint, plan_id_ uuid, happened_at_ timestamptz, recorded_by_ text,
    destination_id_ uuid default null
)
returns void
language plpgsql volatile
as $$
declare
    planned relaybox_internal.batch;
    hop_ relaybox_internal.hop_out;
    store_name text := (select s.store from relaybox_internal.store s);
begin
    perform relaybox_internal.require_writable_primary();
    set local synchronous_commit = on;
    select * into hop_ from relaybox_internal.hop_out h where h.hop = hop_name;
    if hop_.destination_id <> destination_id_ then
        raise exception using errcode = 'RB018',
            message = format(
                'hop %s: batch %s arrived in store %s; the hop goes to store %s', hop_name, batch_,
                destination_id_, hop_.destination_id
            ),
            hint = format(
                'Nothing was confirmed. Two deployments with different databases for %s run this '
                'hop. See both with: relaybox reanchor %s', hop_.destination, hop_name
            );
    end if;
    if hop_.compacted_batch >= batch_ then
        return;  -- settled long ago
    end if;
    select * into planned
    from relaybox_internal.batch b where b.hop = hop_name and b.batch = batch_;
    if not found then
        raise exception using errcode = 'RB011',
            message = format(
                'hop %s: the ledger of %s ends at batch %s, %s has published batch %s: '
                '%s lost history',
                hop_name, store_name, hop_.batch, hop_.destination, batch_, store_name
            ),
            hint = 'Nothing was moved. See what is missing with: relaybox reanchor ' || hop_name;
    end if;
    if planned.plan_id <> plan_id_ then
        raise exception using errcode = 'RB012',
            message = format(
                'hop %s: %s has published batch %s with plan %s, %s has plan %s: %s lost history',
                hop_name, hop_.destination, batch_, plan_id_, store_name, planned.plan_id,
                store_name
            ),
            hint = 'Nothing was moved. See what is missing with: relaybox reanchor ' || hop_name;
    end if;
    insert into relaybox_internal.confirmation (
        hop, state, through_position, through_batch, happened_at, recorded_by
    )
    values (hop_name, 'received', planned.last_position, batch_, happened_at_, recorded_by_)
    on conflict do nothing;
end
$$;
