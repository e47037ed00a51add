-- The messages of a hop that nobody delivered, up to a seq, as runs of seqs: read by no batch up to `common_batch`, and not among
-- those that the destination has beyond it (temporary table relaybox_adopted, made by the caller).
-- Two number spaces of transactions may meet here, those of this cluster and those of one that was dumped: a seq above all
-- that batches have read is undelivered whatever its transaction; at or below it the ledger's snapshots are right.
create or replace function relaybox.undelivered_messages(
    hop_name text, common_batch bigint, through_seq bigint, out seqs int8multirange, out message_count bigint
)
language plpgsql volatile
as $$
declare
    head relaybox.hop_out;
    newest relaybox.batch;
    read_through bigint;
    left_over int8multirange;
begin
    select * into head from relaybox.hop_out h where h.hop = hop_name;
    -- newest pair of snapshots of this generation that is common
    select * into newest from relaybox.batch b
    where b.hop = hop_name and b.batch <= common_batch and b.generation = head.generation
        and b.upper is not null and b.upper::text <> relaybox.every_transaction()::text
    order by b.batch desc limit 1;
    select coalesce(max(b.pair_last_seq), 0) into read_through from relaybox.batch b
    where b.hop = hop_name and b.batch <= common_batch and b.generation = head.generation
        and b.upper::text <> relaybox.every_transaction()::text;
    -- what this generation had found undelivered, and planned in batches that are void now
    select head.undelivered + coalesce(range_agg(int8range(s.first_read, s.last_read, '[]')), '{}') into left_over
    from relaybox.batch b, relaybox.batch_slices(b.slices) s
    where b.hop = hop_name and b.batch > common_batch and b.upper::text = relaybox.every_transaction()::text;
    select coalesce(range_agg(int8range(runs.first_seq, runs.last_seq, '[]')), '{}'), coalesce(sum(runs.row_count), 0)
    into seqs, message_count
    from (
        select min(m.seq) as first_seq, max(m.seq) as last_seq, count(*) as row_count
        from (
            select
                d.seq, d.delivered,
                row_number() over (order by d.seq) - row_number() over (partition by d.delivered order by d.seq) as island
            from (
                select
                    o.seq,
                    case
                        when o.seq <= head.anchor_seq then not left_over @> o.seq
                        when newest.batch is null or o.seq > read_through or not pg_visible_in_snapshot(o.xid, newest.upper) then false
                        else newest.pair_exhausted or o.seq <= newest.reads_through or pg_visible_in_snapshot(o.xid, newest.lower)
                    end
                    or exists (select from relaybox_adopted a where a.message_id = o.message_id and a.sent_at = o.sent_at)
                    as delivered
                from relaybox.outbox o
                where o.seq <= through_seq and o.topic = any(head.topics)
            ) d
        ) m
        where not m.delivered
        group by m.island
    ) runs;
end
$$;
