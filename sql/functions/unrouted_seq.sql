-- The first seq up to one whose topic no hop has ever moved, or which came after its topic was taken from the hops; null: there is none.
-- Reads the segments below: only asked of those that nobody else needs.
create or replace function relaybox.unrouted_seq(through_seq bigint) returns bigint
language plpgsql stable
set enable_seqscan = on
as $$
declare
    topics_ text[] := array(select distinct unnest(h.topics) from relaybox.hop_out h where h.reads_log is null);
begin
    return (
        select min(o.seq)
        from relaybox.outbox o
        left join lateral (
            select b.upper from relaybox.batch b where o.topic = any(b.topics) order by b.planned_at desc limit 1
        ) moved on true
        where o.seq <= through_seq and o.topic <> all(topics_)
            and (moved.upper is null or not pg_visible_in_snapshot(o.xid, moved.upper))
    );
end
$$;
