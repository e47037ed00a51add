-- Raises RB012 if a slice of a batch is here with another plan, RB013 if a slice has no receipt.
-- Caller holds the hop_in row.
create or replace function relaybox_internal.require_receipts(
    head relaybox_internal.hop_in, batch_ bigint, plan_id_ uuid, slice_count_ integer
)
returns void
language plpgsql volatile
as $$
declare
    copied_plan uuid := relaybox_internal.other_plan_copied(head.log_id, batch_, plan_id_);
    receipt_count integer;
begin
    if copied_plan is not null then
        perform relaybox_internal.refuse_other_plan(head.log_id, batch_, copied_plan, plan_id_);
    end if;
    select count(*) into receipt_count
    from relaybox_internal.receipt r where r.log_id = head.log_id and r.batch = batch_;
    if receipt_count <> slice_count_ then
        raise exception using errcode = 'RB013',
            message = format(
                'hop %s: batch %s has %s receipts of %s slices',
                head.hop, batch_, receipt_count, slice_count_
            ),
            hint = 'A slice was not copied yet. Run the transfer again; it resumes this batch.';
    end if;
end
$$;
