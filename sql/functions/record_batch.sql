-- Writes the plan of the next batch; from the caller's COMMIT on it never changes.
-- Caller holds the hop through lock_hop(). Raises RB005 if the previous batch is not confirmed or the plan does not follow it.
create or replace function relaybox.record_batch(
    hop_name text, lower_ pg_snapshot, upper_ pg_snapshot, pair_last_seq_ bigint, pair_exhausted_ boolean,
    reads_after_ bigint, reads_through_ bigint, row_count_ bigint, slices_ jsonb,
    system_identifier_ bigint, timeline_ integer, next_xid_ xid8
)
returns relaybox.batch
language plpgsql volatile
as $$
declare
    head relaybox.hop_out;
    previous relaybox.batch;
    planned relaybox.batch;
begin
    select * into head from relaybox.hop_out h where h.hop = hop_name for update;
    select * into previous from relaybox.batch b where b.hop = hop_name and b.batch = head.batch;
    if head.batch > 0 and not exists (
        select from relaybox.confirmation c
        where c.hop = hop_name and c.state = 'received' and c.through_batch = head.batch
    ) then
        raise exception using errcode = 'RB005', message = format('hop %s: batch %s is not confirmed yet', hop_name, head.batch);
    end if;
    if head.reads_log is not null and reads_after_ <> coalesce(previous.reads_through, 0)
        or head.reads_log is null and not coalesce(previous.pair_exhausted, true)
            and (lower_::text, upper_::text, reads_after_) <> (previous.lower::text, previous.upper::text, previous.reads_through)
        or head.reads_log is null and coalesce(previous.pair_exhausted, true) and lower_::text <> head.lower::text
    then
        raise exception using errcode = 'RB005', message = format('hop %s: the plan does not follow batch %s', hop_name, head.batch);
    end if;
    insert into relaybox.batch (
        hop, batch, topics, lower, upper, pair_last_seq, pair_exhausted, reads_after, reads_through,
        first_position, last_position, row_count, slices, system_identifier, timeline, next_xid
    )
    values (
        hop_name, head.batch + 1, head.topics, lower_, upper_, pair_last_seq_, pair_exhausted_, reads_after_, reads_through_,
        head.position + 1, head.position + row_count_, row_count_, slices_, system_identifier_, timeline_, next_xid_
    )
    returning * into planned;
    update relaybox.hop_out
    set batch = planned.batch, position = planned.last_position, lower = coalesce(upper_, lower)
    where hop = hop_name;
    return planned;
end
$$;
