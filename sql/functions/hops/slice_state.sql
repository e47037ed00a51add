-- Returns what the destination has of a slice: open (to be copied), copied (it has its receipt),
-- published. Raises RB004 (no such hop), RB012 (the batch, or a slice of it, is here with another
-- plan).
create or replace function relaybox_internal.slice_state(
    log_id_ integer, batch_ bigint, slice_ integer, plan_id_ uuid
)
returns text
language plpgsql stable
as $$
declare
    copied_plan uuid;
begin
    if exists (
        select
        from relaybox_internal.hop_in i where i.log_id = log_id_ and i.compacted_batch >= batch_
    ) then
        return 'published';
    elsif not exists (select from relaybox_internal.hop_in i where i.log_id = log_id_) then
        raise exception using errcode = 'RB004',
            message = format('log %s does not exist in this store', log_id_),
            hint = 'Run: relaybox init';
    end if;
    select a.plan_id into copied_plan
    from relaybox_internal.arrival a where a.log_id = log_id_ and a.batch = batch_;
    if found then
        if copied_plan <> plan_id_ then
            perform relaybox_internal.refuse_other_plan(log_id_, batch_, copied_plan, plan_id_);
        end if;
        return 'published';
    end if;
    copied_plan := relaybox_internal.other_plan_copied(log_id_, batch_, plan_id_);
    if copied_plan is not null then
        perform relaybox_internal.refuse_other_plan(log_id_, batch_, copied_plan, plan_id_);
    end if;
    return case
        when exists (
            select from relaybox_internal.receipt r
            where r.log_id = log_id_ and r.batch = batch_ and r.slice = slice_
        ) then 'copied' else 'open'
    end;
end
$$;
