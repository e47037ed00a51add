-- Returns where the edges of each node begin in a list of edges sorted by node (node_of_edge): node
-- n has those from edge_starts[n] to before edge_starts[n + 1].
create or replace function relaybox_internal.edge_starts(node_count bigint, node_of_edge integer[])
returns integer[]
language sql immutable
as $$
    select array_agg(counted.first_edge order by counted.node)
    from (
        select n.node,
            1 + coalesce(sum(count(*) - 1) over before, 0)::integer as first_edge
        from (
            select unnest(node_of_edge) as node
            union all
            select generate_series(1, node_count + 1)
        ) n
        group by n.node
        window before as (order by n.node rows between unbounded preceding and 1 preceding)
    ) counted
$$;
