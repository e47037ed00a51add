-- Makes a batch readable: all slices have receipts of this plan and its rows are really there (counted, not believed).
-- Locks the hop_in row FOR NO KEY UPDATE, which also makes the caller's COMMIT wait for a standby when the batch was published before.
-- Idempotent: a second call returns the first arrival.
-- Raises RB015 (of an older generation, or of long ago),
-- RB011 (batch does not follow), RB012 (the batch, or a slice of it, is here with another plan), RB013 (receipts missing), RB014 (rows missing).
create or replace function relaybox_internal.publish_batch(
    log_id_ integer, generation_ integer, batch_ bigint, plan_id_ uuid, first_position_ bigint, last_position_ bigint, slice_count_ integer,
    source_system_identifier_ bigint, source_timeline_ integer
)
returns relaybox_internal.arrival
language plpgsql volatile
as $$
declare
    head relaybox_internal.hop_in;
    arrived relaybox_internal.arrival;
    plan_here uuid;
    receipt_count integer;
    rows_here bigint;
    first_has_own_index boolean;
    has_own_indexes_here boolean;
    declared text[];
begin
    perform relaybox_internal.require_writable_primary();
    set local synchronous_commit = on;
    select * into head from relaybox_internal.hop_in i where i.log_id = log_id_ for no key update;
    if head.generation <> generation_ then
        raise exception using errcode = 'RB015',
            message = format('hop %s: batch %s is of generation %s, the hop is in generation %s here', head.hop, batch_, generation_,
            head.generation);
    end if;
    if batch_ <= head.compacted_batch then
        raise exception using errcode = 'RB015',
            message = format('hop %s: batch %s was published long ago; what was written down about it is removed', head.hop, batch_);
    end if;
    select * into arrived from relaybox_internal.arrival a where a.log_id = log_id_ and a.batch = batch_;
    if found then
        if (arrived.plan_id, arrived.first_position, arrived.last_position) <> (plan_id_, first_position_, last_position_) then
            perform relaybox_internal.refuse_other_plan(log_id_, batch_, arrived.plan_id, plan_id_);
        end if;
        return arrived;
    end if;
    if (head.published_batch, head.published_position) <> (batch_ - 1, first_position_ - 1) then
        raise exception using errcode = 'RB011',
            message = format(
                'hop %s: batch %s from position %s does not follow; this store has published batch %s through position %s',
                head.hop, batch_, first_position_, head.published_batch, head.published_position
            ),
            hint = 'One of the two stores lost history. See what is missing with: relaybox reanchor ' || head.hop;
    end if;
    plan_here := relaybox_internal.other_plan_copied(log_id_, batch_, plan_id_);
    if plan_here is not null then
        perform relaybox_internal.refuse_other_plan(log_id_, batch_, plan_here, plan_id_);
    end if;
    select count(*) into receipt_count from relaybox_internal.receipt r where r.log_id = log_id_ and r.batch = batch_;
    if receipt_count <> slice_count_ then
        raise exception using errcode = 'RB013',
            message = format('hop %s: batch %s has %s receipts of %s slices', head.hop, batch_, receipt_count, slice_count_),
            hint = 'A slice was not copied yet. Run the transfer again; it resumes this batch.';
    end if;
    first_has_own_index := (select l.epoch > 0 from relaybox_internal.log l where l.log_id = log_id_ and l.log_position = first_position_);
    -- rows this fresh are not all-visible yet, and their segment has no statistics for the planner to choose by:
    -- a bitmap visits each page once, an index-only scan once per row; half a segment and more is scanned whole, in parallel
    set local enable_indexonlyscan = off;
    set local enable_indexscan = off;
    set local work_mem = '64MB';
    if last_position_ - first_position_ >= (select s.segment_rows / 2 from relaybox_internal.store s) then
        set local enable_bitmapscan = off;
        set local enable_seqscan = on;
    end if;
    select array_agg(distinct d.sender) into declared
    from relaybox_internal.stream_log l join relaybox_internal.sender d on d.origin = l.origin where l.log_id = log_id_;
    perform relaybox_internal.make_published_sender();
    if first_has_own_index then
        -- probably more of them have an index: whoever decides on the batch in this session finds its senders counted
        insert into pg_temp.published_sender
        select log_id_, batch_, c.* from relaybox_internal.count_senders(log_id_, first_position_, last_position_) c;
        select coalesce(sum(p.row_count), 0), bool_or(p.epoch > 0 or coalesce(p.sender = any(declared), false))
        into rows_here, has_own_indexes_here from pg_temp.published_sender p;
    else
        -- dynamic, because only so may plpgsql count in parallel
        execute 'select count(*), max(l.epoch) > 0 or coalesce(bool_or(l.sender = any($4)), false)
            from relaybox_internal.log l where l.log_id = $1 and l.log_position >= $2 and l.log_position <= $3'
        into rows_here, has_own_indexes_here using log_id_, first_position_, last_position_, declared;
    end if;
    if rows_here <> last_position_ - first_position_ + 1 then
        raise exception using errcode = 'RB014',
            message = format(
                'hop %s: batch %s has %s rows in positions %s to %s, expected %s',
                head.hop, batch_, rows_here, first_position_, last_position_, last_position_ - first_position_ + 1
            ),
            hint = 'Rows of this log were removed after they were copied. Nothing was published.';
    end if;
    insert into relaybox_internal.arrival (
        log_id, batch, plan_id, first_position, last_position, row_count, slice_count, source_system_identifier, source_timeline,
        has_own_indexes
    )
    values (
        log_id_, batch_, plan_id_, first_position_, last_position_, rows_here, slice_count_, source_system_identifier_, source_timeline_,
        has_own_indexes_here
    )
    returning * into arrived;
    update relaybox_internal.hop_in set published_batch = batch_, published_position = last_position_ where log_id = log_id_;
    return arrived;
end
$$;
