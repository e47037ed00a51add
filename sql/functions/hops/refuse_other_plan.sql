-- Raises RB012: the store has another plan of a batch than the source offers.
create or replace function relaybox_internal.refuse_other_plan(
    log_id_ integer, batch_ bigint, plan_here uuid, plan_offered uuid
)
returns void
language plpgsql stable
as $$
begin
    raise exception using errcode = 'RB012',
        message = format(
            'hop %s: batch %s is here with plan %s; '
            'the source now offers plan %s under the same number',
            (select i.hop from relaybox_internal.hop_in i where i.log_id = log_id_), batch_,
            plan_here, plan_offered
        ),
        hint = 'The source lost history after this batch was sent. Nothing was overwritten. '
            'See what is missing with: relaybox reanchor '
            || (select i.hop from relaybox_internal.hop_in i where i.log_id = log_id_);
end
$$;
