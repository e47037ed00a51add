-- What of the outbox waits for the next batches of these hops: the first seq and the number of rows, of
-- the next pair of snapshots and of each routed piece of the backlog. A hop without a row: nothing waits
-- for it. The outbox is read once for all of them, from the oldest of their newest snapshots to now: each
-- row counts for a hop by its topic, and by the place of its transaction and its seq among what the hops
-- begin with. So the cost is that of the hop that looks back furthest.
-- heads: hops that read the outbox.
create or replace function relaybox_internal.outbox_waiting(heads relaybox_internal.hop_out[])
returns table (hop text, first_seq bigint, row_count bigint)
language plpgsql stable
set plan_cache_mode = force_custom_plan -- so that segments sealed before are left out
as $$
declare
    upper_ constant pg_snapshot := pg_current_snapshot();
    first_kept constant bigint := (select s.first_kept_seq from relaybox_internal.store s);
    oldest constant pg_snapshot := relaybox_internal.oldest_lower(heads);
    sealed_seq constant bigint := relaybox_internal.sealed_through(oldest);
    first_xids constant xid8[] := array(
        select distinct pg_snapshot_xmax(h.lower) from unnest(heads) h order by 1
    );
    anchor_seqs constant bigint[] := array(select distinct h.anchor_seq from unnest(heads) h order by 1);
    open_before constant xid8[] := array(
        select distinct x.xid from unnest(heads) h cross join pg_snapshot_xip(h.lower) x (xid)
        where pg_visible_in_snapshot(x.xid, upper_)
    );
begin
    if cardinality(heads) = 0 then
        return; -- without the oldest snapshot, all segments would be planned for
    end if;
    return query
    with sent as materialized (
        select
            o.topic, width_bucket(o.xid, first_xids) as xid_rank,
            width_bucket(o.seq - 1, anchor_seqs) as anchor_rank, min(o.seq) as first_seq, count(*) as row_count
        from relaybox_internal.sent_rows o
        where o.xid >= pg_snapshot_xmax(oldest)
            and o.xid < pg_snapshot_xmax(upper_)
            and (o.xid < pg_snapshot_xmin(upper_) or pg_visible_in_snapshot(o.xid, upper_))
            and (o.seq > sealed_seq or o.seq < first_kept)
        group by 1, 2, 3
    ), sent_late as materialized ( -- by transactions that one of the snapshots saw open
        select
            o.topic, o.xid, width_bucket(o.seq - 1, anchor_seqs) as anchor_rank, min(o.seq) as first_seq,
            count(*) as row_count
        from relaybox_internal.sent_rows o
        where o.xid = any(open_before) and (o.seq > sealed_seq or o.seq < first_kept)
        group by 1, 2, 3
    ), head as materialized (
        select
            h.hop, h.lower, t.topic, width_bucket(pg_snapshot_xmax(h.lower), first_xids) as xid_rank,
            width_bucket(h.anchor_seq, anchor_seqs) as anchor_rank
        from unnest(heads) h
        cross join lateral (select distinct unnest(h.topics)) t (topic)
    ), part as (
        select h.hop, s.first_seq, s.row_count
        from sent s
        join head h on h.topic = s.topic and h.xid_rank <= s.xid_rank and h.anchor_rank <= s.anchor_rank
        union all
        select h.hop, s.first_seq, s.row_count
        from sent_late s
        join head h on h.topic = s.topic and h.anchor_rank <= s.anchor_rank
            and s.xid = any(array(select pg_snapshot_xip(h.lower)))
        union all
        select p.hop, b.first_seq, b.row_count
        from relaybox_internal.backlog p
        cross join lateral relaybox_internal.count_backlog_piece(p.lower, p.upper, p.topics, p.seqs) b
        where p.state = 'routed' and p.hop = any(array(select h.hop from unnest(heads) h))
    )
    select p.hop, min(p.first_seq), sum(p.row_count)::bigint from part p group by p.hop;
end
$$;
