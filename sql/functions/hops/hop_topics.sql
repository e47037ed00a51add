-- Returns all topics that a hop which reads the outbox has or had: those that it moves, those of
-- its backlog, and those of its batches. Null: no such hop. Follows the index from one list of
-- topics to the next: some pages per list that a batch had, for any number of batches.
create or replace function relaybox_internal.hop_topics(hop_name text) returns text[]
language sql stable
-- the planner overrates the index for a hop with most of the batches and fresh statistics
set enable_seqscan = off
as $$
    with recursive listed as (
        (
            select b.topics, hash_array_extended(b.topics, 0::bigint) as number
            from relaybox_internal.batch b
            where b.hop = hop_name and hash_array_extended(b.topics, 0::bigint) is not null
            order by hash_array_extended(b.topics, 0::bigint)
            limit 1
        )
        union all
        select n.topics, n.number
        from listed l
        cross join lateral (
            select b.topics, hash_array_extended(b.topics, 0::bigint) as number
            from relaybox_internal.batch b
            where b.hop = hop_name and hash_array_extended(b.topics, 0::bigint) > l.number
            order by hash_array_extended(b.topics, 0::bigint)
            limit 1
        ) n
    )
    select array(
        select unnest(h.topics)
        union
        select unnest(p.topics) from relaybox_internal.backlog p where p.hop = h.hop
        union
        select unnest(l.topics) from listed l
        order by 1
    )
    from relaybox_internal.hop_out h
    where h.hop = hop_name and h.reads_log is null
$$;
