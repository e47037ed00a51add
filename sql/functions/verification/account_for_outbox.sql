-- Accounts for the rows of the outbox that are kept in a range of seqs (after, through], per topic, for
-- each of these hops. By the law of conservation (G12), committed = delivered + planned + waiting +
-- unrouted + retired, each row once. missing: in none of these; doubled: in two or more. Reads the
-- range once for all hops, and their ledgers' slices of it, in one snapshot.
create or replace function relaybox_internal.account_for_outbox(
    hop_names text[], after_seq bigint, through_seq bigint
)
returns table (
    hop text, topic text, committed_count bigint, delivered_count bigint, planned_count bigint,
    waiting_count bigint, unrouted_count bigint,
    retired_count bigint, missing_count bigint, doubled_count bigint
)
language plpgsql stable
set plan_cache_mode = force_custom_plan -- only the segments of the range are looked at
as $$
begin
    return query
    with moved as materialized (
        select n.hop, unnest(relaybox_internal.hop_topics(n.hop)) as topic from unnest(hop_names) n (hop)
    )
    select
        h.hop, o.topic, count(*),
        count(*) filter (where a.state = 'delivered'), count(*) filter (where a.state = 'planned'),
        count(*) filter (where a.state = 'waiting'), count(*) filter (where a.state = 'unrouted'),
        count(*) filter (where a.state = 'retired'), count(*) filter (where a.seq is null),
        count(*) filter (where a.entry_count > 1)
    from moved h
    join relaybox_internal.sent_rows o on o.topic = h.topic and o.seq > after_seq and o.seq <= through_seq
    left join (
        select p.hop, p.seq, min(p.state) as state, count(*) as entry_count
        from relaybox_internal.accounted_seqs(hop_names, after_seq, through_seq) p
        group by p.hop, p.seq
    ) a on a.hop = h.hop and a.seq = o.seq
    group by h.hop, o.topic
    order by h.hop, o.topic;
end
$$;
