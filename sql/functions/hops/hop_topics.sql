-- All topics that a hop which reads the outbox has or had: those it moves, those of its backlog, and those of its batches. Null: no such hop.
create or replace function relaybox.hop_topics(hop_name text) returns text[]
language sql stable
as $$
    select array(
        select unnest(h.topics)
        union
        select unnest(p.topics) from relaybox.backlog p where p.hop = h.hop
        union
        select unnest(b.topics) from relaybox.batch b where b.hop = h.hop
        order by 1
    )
    from relaybox.hop_out h
    where h.hop = hop_name and h.reads_log is null
$$;
