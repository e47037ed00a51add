-- The first seq up to one whose topic no hop has ever moved, or which came after its topic was taken from the hops or its hop was
-- retired; null: there is none.
-- Reads the segments below: only asked of those that nobody else needs.
create or replace function relaybox.unrouted_seq(through_seq bigint) returns bigint
language plpgsql stable
set enable_seqscan = on
as $$
declare
    topics_ text[] := array(select distinct unnest(h.topics) from relaybox.hop_out h where h.reads_log is null and h.retired_at is null);
begin
    return (
        select min(o.seq)
        from relaybox.outbox o
        left join lateral (
            select m.upper
            from (
                select b.upper, b.planned_at as at_ from relaybox.batch b where o.topic = any(b.topics)
                union all
                select h.given_up, h.retired_at from relaybox.hop_out h where o.topic = any(h.topics) and h.given_up is not null
            ) m
            order by m.at_ desc limit 1
        ) moved on true
        where o.seq <= through_seq and o.topic <> all(topics_)
            and (moved.upper is null or not pg_visible_in_snapshot(o.xid, moved.upper))
    );
end
$$;
