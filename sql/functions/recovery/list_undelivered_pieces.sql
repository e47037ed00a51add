-- The pieces of a rebuilt backlog, from the temporary table relaybox_outbox_state: per state and
-- retirement, the seqs that the destination does not have. A range of seqs never includes a row of
-- another kind that belongs to the hop's topics, so that no slice reads one. Inlined in
-- rebuild_backlog().
create or replace function relaybox_internal.list_undelivered_pieces()
returns table (
    state text, retired_by text, retired_reason text, topics text[], seqs int8multirange
)
language sql stable
as $$
    select r.state, r.retired_by, r.retired_reason, array_agg(distinct r.topic order by r.topic),
        range_agg(r.seqs)
    from (
        select i.state, i.retired_by, i.retired_reason, i.topic,
            int8range(min(i.seq), max(i.seq), '[]') as seqs
        from (
            select o.*,
                row_number() over (order by o.seq) - row_number() over (
                    partition by o.state, o.delivered, o.retired_by, o.retired_reason order by o.seq
                ) as island
            from relaybox_outbox_state o
        ) i
        where not i.delivered
        group by i.state, i.retired_by, i.retired_reason, i.topic, i.island
    ) r
    group by r.state, r.retired_by, r.retired_reason
$$;
