-- Writes the receipt of a slice, as the last statement of the slice's transaction, if its batch is
-- still open. Locks the hop_in row FOR SHARE: publish waits for slices in flight, and a slice that
-- resumes after publish is refused (a plain SELECT would read stale state). READ COMMITTED only.
-- Messages of topics that the hop checks are checked before (check_slice()).
-- Raises RB011 (another batch is due), RB012 (the content differs from the plan's digest, or a
-- slice of another plan is here), RB015 (already published, or of an older generation).
create or replace function relaybox_internal.accept_slice(
    log_id_ integer, generation_ integer, batch_ bigint, slice_ integer, plan_id_ uuid,
    row_count_ bigint, attempt_ bigint, digest_ text default null,
    first_position bigint default null
)
returns void
language plpgsql volatile
as $$
declare
    published bigint;
    hop_generation integer;
    copied_plan uuid;
    arrived_digest text;
    checked jsonb;
begin
    -- before the lock: publish must not wait for the digest
    if digest_ is not null then
        select d.digest into arrived_digest
        from relaybox_internal.slice_digest(
            log_id_, null, null, null, first_position, first_position + row_count_ - 1,
            first_position, first_position + row_count_ - 1
        ) d;
        if arrived_digest is distinct from digest_ then
            raise exception using errcode = 'RB012',
                message = format(
                    'slice %s of batch %s arrived with other content than was planned', slice_,
                    batch_
                ),
                hint = 'Messages of the source were changed after planning. '
                    'Nothing of the slice was kept.';
        end if;
    end if;
    -- as the digest: an init may change it meanwhile, and a message is checked by one of the two rules
    select jsonb_object_agg(c.topic, c.rule) into checked
    from relaybox_internal.hop_check c where c.log_id = log_id_;
    if checked is not null then
        perform relaybox_internal.check_slice(
            log_id_, first_position, first_position + row_count_ - 1, checked
        );
    end if;
    select i.published_batch, i.generation into published, hop_generation
    from relaybox_internal.hop_in i where i.log_id = log_id_
    for share;
    if hop_generation <> generation_ then
        raise exception using errcode = 'RB015',
            message = format(
                'slice %s of batch %s is of generation %s, the hop is in generation %s here',
                slice_, batch_, generation_, hop_generation
            );
    end if;
    if published >= batch_ then
        raise exception using errcode = 'RB015',
            message = format(
                'slice %s of batch %s came after batch %s was published', slice_, batch_, published
            );
    end if;
    if published <> batch_ - 1 then
        raise exception using errcode = 'RB011',
            message = format(
                'slice of batch %s, but the newest published batch is %s', batch_, published
            ),
            hint = 'One of the two stores lost history. Nothing was overwritten.';
    end if;
    copied_plan := relaybox_internal.other_plan_copied(log_id_, batch_, plan_id_);
    if copied_plan is not null then
        perform relaybox_internal.refuse_other_plan(log_id_, batch_, copied_plan, plan_id_);
    end if;
    insert into relaybox_internal.receipt (log_id, batch, slice, plan_id, row_count, attempt)
    values (log_id_, batch_, slice_, plan_id_, row_count_, attempt_);
end
$$;
