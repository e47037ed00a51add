-- G2 asked of the outbox itself: committed messages that a hop's newest snapshot has passed and that no slice reads.
-- Each pair of snapshots, and each stretch between two pairs, is counted by index; rows are looked at only where a count
-- is wrong. A hop that reads a log has none: its batches are ranges of positions. Of a hop that was reanchored its newest
-- generation's pairs are asked; what that found undelivered is in its first batches, slice by slice.
create or replace function relaybox.unbatched_messages(hop_name text)
returns table (seq bigint, message_id uuid, sender text, through_batch bigint)
language plpgsql stable
set enable_seqscan = off
as $$
declare
    every_seq constant bigint := 4611686018427387904;
    pair record;
    row_count bigint;
    anchor bigint := (select h.anchor_seq from relaybox.hop_out h where h.hop = hop_name);
    first_lower text := coalesce((
        select b.lower::text from relaybox.batch b
        join relaybox.hop_out h on h.hop = b.hop and h.generation = b.generation
        where b.hop = hop_name and b.generation > 1 and b.upper::text <> relaybox.every_transaction()::text
        order by b.batch limit 1
    ), (select h.lower::text from relaybox.hop_out h where h.hop = hop_name and h.generation > 1), '1:1:');
begin
    for pair in
        with slice as (
            select b.batch, b.lower, b.upper, b.topics, b.pair_exhausted, b.reads_after, b.reads_through,
                s.first_read, s.last_read, s.row_count as slice_rows
            from relaybox.batch b
            join relaybox.hop_out h on h.hop = b.hop and h.generation = b.generation, relaybox.batch_slices(b.slices) s
            where b.hop = hop_name and b.lower is not null and b.upper::text <> relaybox.every_transaction()::text
        ),
        planned as (
            -- topics may change inside a pair: then each part of it counts for itself
            select
                max(batch) as batch, lower::text as lower_, upper::text as upper_, topics as topics_, min(reads_after) as reads_after_,
                case when bool_or(pair_exhausted) then every_seq else max(reads_through) end as reads_through_,
                sum(slice_rows) as planned_count,
                range_agg(int8range(first_read, last_read, '[]')) as covered
            from slice
            group by lower::text, upper::text, topics
        ),
        chain as (
            select p.*, lag(p.upper_, 1, first_lower) over later as upper_before, lag(p.topics_, 1, p.topics_) over later as topics_before
            from (
                select * from planned
                union all
                select h.batch + 1, h.lower::text, h.lower::text, h.topics, 0, 0, 0, '{}' from relaybox.hop_out h where h.hop = hop_name
            ) p
            window later as (order by p.batch, p.reads_after_)
        )
        select batch, lower_::pg_snapshot, upper_::pg_snapshot, topics_, reads_after_, reads_through_, planned_count, covered from planned
        union all
        -- what an empty pair skipped: nothing of the topics before and after it may be in there
        select
            batch - 1, upper_before::pg_snapshot, lower_::pg_snapshot, array(select unnest(topics_before) intersect select unnest(topics_)),
            0, every_seq, 0, '{}'
        from chain
        where upper_before <> lower_ and reads_after_ = 0
        order by 1
    loop
        if (pair.reads_after_, pair.reads_through_) = (0, every_seq) then
            select coalesce(sum(k.row_count), 0) into row_count
            from relaybox.outbox_buckets(pair.lower_, pair.upper_, pair.topics_, every_seq, anchor) k;
        else
            select coalesce(sum(k.row_count), 0) into row_count
            from relaybox.outbox_buckets_after(
                pair.lower_, pair.upper_, pair.topics_, every_seq, greatest(pair.reads_after_, anchor), pair.reads_through_, every_seq
            ) k;
        end if;
        if row_count <> pair.planned_count then
            return query
            select o.seq, o.message_id, o.sender, pair.batch
            from relaybox.outbox o
            where o.seq > greatest(pair.reads_after_, anchor) and o.seq <= pair.reads_through_
                and not pair.covered @> o.seq
                and o.topic = any(pair.topics_)
                and pg_visible_in_snapshot(o.xid, pair.upper_) and not pg_visible_in_snapshot(o.xid, pair.lower_)
            order by o.seq;
        end if;
    end loop;
end
$$;
