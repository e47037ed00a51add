-- Sets ordinal in pg_temp.clocked: after all that a message waits for and that is let through at the same moment; what was set aside
-- hands on what is before it. From the messages that wait for nothing on, each wait is followed once.
-- Returns whether some are left that wait for themselves; pg_temp.wait then has their waits, and else nothing.
create or replace function relaybox.rank_clocked() returns boolean
language plpgsql volatile
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    ordinals bigint[];
    steps integer[];
    wait_counts integer[];
    first_edge integer[];
    waiting integer[];
    ready integer[];
    ready_count integer;
    done_count integer := 0;
    node integer;
    later integer;
begin
    delete from pg_temp.wait;
    insert into pg_temp.wait (taken, for_taken, by_clock) select w.taken, w.for_taken, w.by_clock from relaybox.waits_at_once() w;
    -- the sum of a clock grows along every chain of causes; what was set aside stands nowhere itself
    select
        array_agg(case when c.verdict is null then least(9000000000000000000, c.index + c.clock_sum)::bigint else 0 end order by c.node),
        array_agg((c.verdict is null)::integer order by c.node)
    into ordinals, steps
    from pg_temp.clocked c;
    wait_counts := array(
        select (select count(*) from pg_temp.wait w where w.taken = c.taken)::integer from pg_temp.clocked c order by c.node
    );
    -- the messages that wait for each: from first_edge[node] to before first_edge[node + 1]
    select array_agg(l.node order by d.node) into waiting
    from pg_temp.wait w
    join pg_temp.clocked d on d.taken = w.for_taken
    join pg_temp.clocked l on l.taken = w.taken;
    select array_agg(n.before order by n.node) into first_edge
    from (
        select e.node, 1 + coalesce(sum(e.edge_count) over (order by e.node rows between unbounded preceding and 1 preceding), 0)::integer as before
        from (
            select c.node, (select count(*) from pg_temp.wait w where w.for_taken = c.taken) as edge_count from pg_temp.clocked c
        ) e
    ) n;
    first_edge := first_edge || coalesce(cardinality(waiting), 0) + 1;
    ready := array(select o.node::integer from unnest(wait_counts) with ordinality o (wait_count, node) where o.wait_count = 0);
    ready_count := cardinality(ready);
    while done_count < ready_count loop
        done_count := done_count + 1;
        node := ready[done_count];
        for edge in first_edge[node] .. first_edge[node + 1] - 1 loop
            later := waiting[edge];
            ordinals[later] := greatest(ordinals[later], ordinals[node] + steps[later]);
            wait_counts[later] := wait_counts[later] - 1;
            if wait_counts[later] = 0 then
                ready_count := ready_count + 1;
                ready[ready_count] := later;
            end if;
        end loop;
    end loop;
    update pg_temp.clocked c set ordinal = n.ordinal from unnest(ordinals) with ordinality n (ordinal, node) where c.node = n.node;
    delete from pg_temp.wait w
    using unnest(ready) r (node) join pg_temp.clocked c on c.node = r.node
    where w.taken = c.taken;
    return exists (select from pg_temp.wait);
end
$$;
