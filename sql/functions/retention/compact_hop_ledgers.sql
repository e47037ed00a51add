-- Removes the plans and confirmations of settled batches of a hop of which no message is kept here, and what was copied of the confirmations
-- of the hops after it. The newest ones stay. Returns how many batches; again: none. Locks the hop's row, as planning does.
create or replace function relaybox_internal.compact_hop_ledgers(hop_name text) returns bigint
language plpgsql volatile
set lock_timeout = '500ms'
set enable_seqscan = on
as $$
declare
    head relaybox_internal.hop_out;
    begins_at bigint;
    settled bigint;
    first_needed bigint;
    through bigint;
    read_through bigint;
    plan_id_ uuid;
    gone bigint;
begin
    perform relaybox_internal.require_writable_primary();
    perform set_config('synchronous_commit', 'local', true);
    select * into head from relaybox_internal.hop_out h where h.hop = hop_name for update;
    begins_at := case
        when head.reads_log is null then (select s.first_kept_seq from relaybox_internal.store s)
        else relaybox_internal.log_kept_from(head.reads_log)
    end;
    settled := case
        when head.retired_at is null then (select c.through_position from relaybox_internal.newest_confirmation(hop_name, 'settled') c)
        else head.log_position + 1
    end;
    -- late messages have low seqs: batches are removed up to the first one that has a message here
    select min(b.batch) into first_needed from relaybox_internal.batch b
    where b.hop = hop_name and (
        b.batch = head.batch or (b.last_position < settled) is not true
        or exists (select from relaybox_internal.batch_slices(b.slices) s where s.last_read >= begins_at)
    );
    select b.last_position, b.reads_through, b.plan_id into through, read_through, plan_id_
    from relaybox_internal.batch b where b.hop = hop_name and b.batch = first_needed - 1;
    if through is null then
        return 0;
    end if;
    delete from relaybox_internal.batch b where b.hop = hop_name and b.batch < first_needed;
    get diagnostics gone = row_count;
    delete from relaybox_internal.attempt a where a.hop = hop_name and a.batch < first_needed;
    delete from relaybox_internal.confirmation c
    where split_part(c.hop, '/', 1) = split_part(hop_name, '/', 1) and c.through_position <= through
        and (c.hop = hop_name or not exists (select from relaybox_internal.hop_out o where o.hop = c.hop))
        and exists (
            select from relaybox_internal.confirmation n where n.hop = c.hop and n.state = c.state and n.through_position > c.through_position
        );
    update relaybox_internal.hop_out set compacted_batch = first_needed - 1, compacted_position = through, compacted_plan_id = plan_id_,
        compacted_read = case when head.reads_log is null then 0 else read_through end
    where hop = hop_name;
    return gone;
end
$$;
