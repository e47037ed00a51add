-- Makes a batch readable once all its slices have receipts of this plan and all its rows are
-- counted. Locks the hop_in row FOR NO KEY UPDATE. The lock also makes the caller's COMMIT wait for
-- a standby if the batch was published before. Idempotent: a second call returns the first arrival.
-- Reads back what it wrote: a trigger of others could have kept it from being written, and an arrival
-- that such a trigger left without the rest is completed. Raises RB003 if one does, or if a crash would
-- empty what arrived; RB015 (the batch
-- is of an older generation, or its record is removed), RB011 (the batch does not follow), RB012 (the
-- batch, or a slice of it, is here with another plan), RB013 (a receipt is missing), RB014 (rows are
-- missing).
create or replace function relaybox_internal.publish_batch(
    log_id_ integer, generation_ integer, batch_ bigint, plan_id_ uuid, first_position_ bigint,
    last_position_ bigint, slice_count_ integer, source_system_identifier_ bigint,
    source_timeline_ integer
)
returns relaybox_internal.arrival
language plpgsql volatile
as $$
declare
    head relaybox_internal.hop_in;
    arrived relaybox_internal.arrival;
    counted record;
begin
    perform relaybox_internal.require_writable_primary();
    set local synchronous_commit = on;
    select * into head from relaybox_internal.hop_in i where i.log_id = log_id_ for no key update;
    perform relaybox_internal.refuse_outdated_batch(head, generation_, batch_);
    select * into arrived
    from relaybox_internal.arrival a where a.log_id = log_id_ and a.batch = batch_;
    if found then
        if (arrived.plan_id, arrived.first_position, arrived.last_position)
            <> (plan_id_, first_position_, last_position_)
        then
            perform relaybox_internal.refuse_other_plan(log_id_, batch_, arrived.plan_id, plan_id_);
        end if;
        if head.published_batch >= batch_ then
            perform relaybox_internal.refuse_unlogged(log_id_, first_position_, last_position_);
            return arrived;
        end if;
    end if;
    if (head.published_batch, head.published_position) <> (batch_ - 1, first_position_ - 1) then
        raise exception using errcode = 'RB011',
            message = format(
                'hop %s: batch %s from position %s does not follow; '
                'this store has published batch %s through position %s',
                head.hop, batch_, first_position_, head.published_batch, head.published_position
            ),
            hint = 'One of the two stores lost history. '
                'See what is missing with: relaybox reanchor ' || head.hop;
    end if;
    if arrived.batch is null then
        perform relaybox_internal.require_receipts(head, batch_, plan_id_, slice_count_);
        select * into counted
        from relaybox_internal.count_batch_rows(head, batch_, first_position_, last_position_);
        insert into relaybox_internal.arrival (
            log_id, batch, plan_id, first_position, last_position, row_count, slice_count,
            source_system_identifier, source_timeline, has_own_indexes, set_aside_count
        )
        values (
            log_id_, batch_, plan_id_, first_position_, last_position_, counted.row_count,
            slice_count_, source_system_identifier_, source_timeline_, counted.has_own_indexes,
            (
                select nullif(count(*), 0) from relaybox_internal.nonconforming_message n
                where n.log_id = log_id_ and n.log_position >= first_position_
                    and n.log_position <= last_position_ and n.is_set_aside
            )
        )
        returning * into arrived;
    end if;
    -- after the rows are counted: the count holds their segments until COMMIT
    perform relaybox_internal.refuse_unlogged(log_id_, first_position_, last_position_);
    update relaybox_internal.hop_in
    set published_batch = batch_, published_position = last_position_
    where log_id = log_id_;
    if not exists (
        select from relaybox_internal.arrival a
        join relaybox_internal.hop_in i on i.log_id = a.log_id
        where a.log_id = log_id_ and a.batch = batch_ and i.published_batch = batch_
            and i.published_position = last_position_
    ) then
        raise exception using errcode = 'RB003',
            message = format(
                'hop %s: batch %s could not be published: a trigger or a rule on '
                'relaybox_internal.hop_in or relaybox_internal.arrival keeps its record from being '
                'written',
                head.hop, batch_
            ),
            hint = 'Drop it. This command names it: relaybox doctor '
                || (select s.store from relaybox_internal.store s);
    end if;
    return arrived;
end
$$;
