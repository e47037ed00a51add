-- Removes the plans and confirmations of settled batches of a hop of which no message is kept here,
-- and the copies of confirmations of the hops after it. The newest ones stay. Returns the number of
-- batches; again: 0. Locks the hop's row, as planning does.
create or replace function relaybox_internal.compact_hop_ledgers(hop_name text) returns bigint
language plpgsql volatile
set lock_timeout = '500ms'
set enable_seqscan = on
as $$
declare
    hop_ relaybox_internal.hop_out;
    first_needed bigint;
    last relaybox_internal.batch; -- the last batch that is removed
    removed bigint;
begin
    perform relaybox_internal.require_writable_primary();
    perform set_config('synchronous_commit', 'local', true);
    select * into hop_ from relaybox_internal.hop_out h where h.hop = hop_name for update;
    first_needed := relaybox_internal.first_needed_batch(hop_);
    select b.* into last from relaybox_internal.batch b
    where b.hop = hop_name and b.batch = first_needed - 1;
    if not found then
        return 0;
    end if;
    delete from relaybox_internal.batch b where b.hop = hop_name and b.batch < first_needed;
    get diagnostics removed = row_count;
    delete from relaybox_internal.attempt a where a.hop = hop_name and a.batch < first_needed;
    perform relaybox_internal.compact_confirmations(hop_name, last.last_position);
    update relaybox_internal.hop_out set
        compacted_batch = last.batch, compacted_position = last.last_position,
        compacted_plan_id = last.plan_id,
        compacted_read = case when hop_.reads_log is null then 0 else last.reads_through end
    where hop = hop_name;
    return removed;
end
$$;
