-- Sets t in pg_temp.clocked: as late as the latest cause and the sender's own earlier messages, the largest number for never.
-- The end of an epoch lets go what waited in it. Latest first, from each message on to those that wait for it: what is set so is
-- hardly ever set again, so that each cause is followed about once. In arrays: rows would leave a dead version per change.
create or replace function relaybox.spread_times() returns void
language plpgsql volatile
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    never constant bigint := 9223372036854775807;
    times bigint[];
    fences bigint[];
    own_next boolean[];
    first_edge integer[];
    waiting integer[];
    caps bigint[];
    latest_first integer[];
    stack integer[] := '{}';
    depth integer;
    node integer;
    later integer;
    found bigint;
begin
    if not exists (select from pg_temp.cause) then
        return;
    end if;
    select array_agg(least(greatest(c.t, u.bound), f.fenced_at) order by c.node), array_agg(f.fenced_at order by c.node)
    into times, fences
    from pg_temp.clocked c
    left join (
        select x.taken, max(coalesce(x.fenced_at, never)) as bound from pg_temp.cause x where x.for_taken is null group by x.taken
    ) u on u.taken = c.taken
    left join pg_temp.fence f on f.sender_id = c.sender_id;
    own_next := array(select lead(c.sender_id) over (order by c.node) is not distinct from c.sender_id from pg_temp.clocked c order by c.node);
    -- the messages that wait for each: from first_edge[node] to before first_edge[node + 1]
    select array_agg(w.node order by d.node), array_agg(x.fenced_at order by d.node) into waiting, caps
    from pg_temp.cause x
    join pg_temp.clocked d on d.taken = x.for_taken
    join pg_temp.clocked w on w.taken = x.taken;
    select array_agg(n.before order by n.node) into first_edge
    from (
        select e.node, 1 + coalesce(sum(e.edge_count) over (order by e.node rows between unbounded preceding and 1 preceding), 0)::integer as before
        from (
            select c.node, (select count(*) from pg_temp.cause x where x.for_taken = c.taken) as edge_count from pg_temp.clocked c
        ) e
    ) n;
    first_edge := first_edge || coalesce(cardinality(waiting), 0) + 1;
    latest_first := array(select o.node::integer from unnest(times) with ordinality o (t, node) order by o.t desc);
    foreach node in array latest_first loop
        depth := 1;
        stack[1] := node;
        while depth > 0 loop
            node := stack[depth];
            depth := depth - 1;
            if own_next[node] then
                later := node + 1;
                found := least(times[node], fences[later]);
                if found > times[later] then
                    times[later] := found;
                    depth := depth + 1;
                    stack[depth] := later;
                end if;
            end if;
            for edge in first_edge[node] .. first_edge[node + 1] - 1 loop
                later := waiting[edge];
                found := least(times[node], caps[edge], fences[later]);
                if found > times[later] then
                    times[later] := found;
                    depth := depth + 1;
                    stack[depth] := later;
                end if;
            end loop;
        end loop;
    end loop;
    update pg_temp.clocked c set t = n.t from unnest(times) with ordinality n (t, node) where c.node = n.node and c.t <> n.t;
end
$$;
