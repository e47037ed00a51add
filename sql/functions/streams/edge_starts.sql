-- Edges that are sorted by the node they begin at (node_of_edge): those of node n are the ones from edge_starts[n] to before
-- edge_starts[n + 1].
create or replace function relaybox_internal.edge_starts(node_count bigint, node_of_edge integer[]) returns integer[]
language sql immutable
as $$
    select array_agg(counted.first_edge order by counted.node)
    from (
        select n.node, 1 + coalesce(sum(count(*) - 1) over (order by n.node rows between unbounded preceding and 1 preceding),
        0)::integer as first_edge
        from (
            select unnest(node_of_edge) as node
            union all
            select generate_series(1, node_count + 1)
        ) n
        group by n.node
    ) counted
$$;
