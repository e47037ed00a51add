-- Records at the source that the destination has a batch durably. Idempotent.
-- Raises RB012 when the arrival is of another plan than the ledger's, RB011 when the ledger has no such batch.
create or replace function relaybox.confirm_received(
    hop_name text, batch_ bigint, plan_id_ uuid, happened_at_ timestamptz, recorded_by_ text
)
returns void
language plpgsql volatile
as $$
declare
    planned relaybox.batch;
begin
    perform relaybox.require_writable_primary();
    set local synchronous_commit = on;
    if exists (select from relaybox.hop_out h where h.hop = hop_name and h.compacted_batch >= batch_) then
        return;  -- settled long ago
    end if;
    select * into planned from relaybox.batch b where b.hop = hop_name and b.batch = batch_;
    if not found then
        raise exception using errcode = 'RB011',
            message = format(
                'hop %s: the destination holds batch %s, the ledger here ends at %s',
                hop_name, batch_, (select h.batch from relaybox.hop_out h where h.hop = hop_name)
            ),
            hint = 'The source lost history. Nothing was moved. See what is missing with: relaybox reanchor ' || hop_name;
    end if;
    if planned.plan_id <> plan_id_ then
        raise exception using errcode = 'RB012',
            message = format('hop %s: the destination holds batch %s with plan %s, the ledger here has plan %s', hop_name, batch_, plan_id_, planned.plan_id),
            hint = 'The source lost history after this batch was sent. See what is missing with: relaybox reanchor ' || hop_name;
    end if;
    insert into relaybox.confirmation (hop, state, through_position, through_batch, happened_at, recorded_by)
    values (hop_name, 'received', planned.last_position, batch_, happened_at_, recorded_by_)
    on conflict do nothing;
end
$$;
