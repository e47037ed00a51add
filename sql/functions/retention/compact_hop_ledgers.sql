-- Removes the plans and confirmations of settled batches of a hop of which no message is kept here, and what was copied of the confirmations
-- of the hops after it. The newest ones stay. Returns how many batches; again: none. Locks the hop's row, as planning does.
create or replace function relaybox.compact_hop_ledgers(hop_name text) returns bigint
language plpgsql volatile
set lock_timeout = '500ms'
set enable_seqscan = on
as $$
declare
    head relaybox.hop_out;
    begins_at bigint;
    settled bigint;
    first_needed bigint;
    through bigint;
    read_through bigint;
    plan_id_ uuid;
    gone bigint;
begin
    perform relaybox.require_writable_primary();
    perform set_config('synchronous_commit', 'local', true);
    select * into head from relaybox.hop_out h where h.hop = hop_name for update;
    begins_at := case
        when head.reads_log is null then (select s.first_kept_seq from relaybox.store s)
        else relaybox.log_kept_from(head.reads_log)
    end;
    settled := case
        when head.retired_at is null then (select c.through_position from relaybox.newest_confirmation(hop_name, 'settled') c)
        else head.log_position + 1
    end;
    -- late messages have low seqs: batches are removed up to the first one that has a message here
    select min(b.batch) into first_needed from relaybox.batch b
    where b.hop = hop_name and (
        b.batch = head.batch or (b.last_position < settled) is not true
        or exists (select from relaybox.batch_slices(b.slices) s where s.last_read >= begins_at)
    );
    select b.last_position, b.reads_through, b.plan_id into through, read_through, plan_id_
    from relaybox.batch b where b.hop = hop_name and b.batch = first_needed - 1;
    if through is null then
        return 0;
    end if;
    delete from relaybox.batch b where b.hop = hop_name and b.batch < first_needed;
    get diagnostics gone = row_count;
    delete from relaybox.attempt a where a.hop = hop_name and a.batch < first_needed;
    delete from relaybox.confirmation c
    where split_part(c.hop, '/', 1) = split_part(hop_name, '/', 1) and c.through_position <= through
        and (c.hop = hop_name or not exists (select from relaybox.hop_out o where o.hop = c.hop))
        and exists (
            select from relaybox.confirmation n where n.hop = c.hop and n.state = c.state and n.through_position > c.through_position
        );
    update relaybox.hop_out set compacted_batch = first_needed - 1, compacted_position = through, compacted_plan_id = plan_id_,
        compacted_read = case when head.reads_log is null then 0 else read_through end
    where hop = hop_name;
    return gone;
end
$$;
