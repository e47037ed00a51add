-- Returns another plan of a batch of which a slice was copied; null: there is none. Such a plan
-- exists if the source planned the batch, sent a part of it, went back to a time before that, and
-- planned it again. One log cannot have slices of both plans: their positions overlap.
create or replace function relaybox_internal.other_plan_copied(
    log_id_ integer, batch_ bigint, plan_id_ uuid
)
returns uuid
language sql stable
as $$
    select r.plan_id from relaybox_internal.receipt r
    where r.log_id = log_id_ and r.batch = batch_ and r.plan_id <> plan_id_
    limit 1
$$;
