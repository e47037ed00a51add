-- Writes the plan of the next batch; from the caller's COMMIT on it never changes.
-- Caller holds the hop through lock_hop(). What a new generation found undelivered comes first, in batches of its own.
-- Raises RB005 if the previous batch is not confirmed or the plan does not follow it.
create or replace function relaybox.record_batch(
    hop_name text, lower_ pg_snapshot, upper_ pg_snapshot, pair_last_seq_ bigint, pair_exhausted_ boolean,
    reads_after_ bigint, reads_through_ bigint, row_count_ bigint, slices_ jsonb,
    digests_ text[], system_identifier_ bigint, timeline_ integer, next_xid_ xid8
)
returns relaybox.batch
language plpgsql volatile
as $$
declare
    head relaybox.hop_out;
    previous relaybox.batch;
    planned relaybox.batch;
    undelivered_part boolean := coalesce(upper_::text = relaybox.every_transaction()::text, false);
begin
    select * into head from relaybox.hop_out h where h.hop = hop_name for update;
    -- a pair that an older generation left unfinished is not continued: its rest is among the undelivered
    select * into previous from relaybox.batch b
    where b.hop = hop_name and b.batch = head.batch and (head.reads_log is not null or b.generation = head.generation);
    if head.batch > 0 and not exists (
        select from relaybox.confirmation c
        where c.hop = hop_name and c.state = 'received' and c.through_batch = head.batch
    ) then
        raise exception using errcode = 'RB005', message = format('hop %s: batch %s is not confirmed yet', hop_name, head.batch);
    end if;
    if undelivered_part is distinct from (head.reads_log is null and head.undelivered <> '{}') then
        raise exception using errcode = 'RB005', message = format('hop %s: what generation %s found undelivered comes first', hop_name, head.generation);
    end if;
    if head.reads_log is not null and reads_after_ <> coalesce(previous.reads_through, 0)
        or head.reads_log is null and not undelivered_part and not coalesce(previous.pair_exhausted, true)
            and (lower_::text, upper_::text, reads_after_) <> (previous.lower::text, previous.upper::text, previous.reads_through)
        or head.reads_log is null and not undelivered_part and coalesce(previous.pair_exhausted, true) and lower_::text <> head.lower::text
    then
        raise exception using errcode = 'RB005', message = format('hop %s: the plan does not follow batch %s', hop_name, head.batch);
    end if;
    insert into relaybox.batch (
        hop, batch, topics, lower, upper, pair_last_seq, pair_exhausted, reads_after, reads_through,
        first_position, last_position, row_count, slices, digests, system_identifier, timeline, next_xid,
        generation
    )
    values (
        hop_name, head.batch + 1, head.topics, lower_, upper_, pair_last_seq_, pair_exhausted_, reads_after_, reads_through_,
        head.position + 1, head.position + row_count_, row_count_, slices_, digests_, system_identifier_, timeline_, next_xid_,
        head.generation
    )
    returning * into planned;
    update relaybox.hop_out
    set batch = planned.batch, position = planned.last_position,
        lower = case when undelivered_part then lower else coalesce(upper_, lower) end,
        undelivered = case when undelivered_part then undelivered - int8multirange(int8range(0, reads_through_, '[]')) else undelivered end
    where hop = hop_name;
    return planned;
end
$$;
