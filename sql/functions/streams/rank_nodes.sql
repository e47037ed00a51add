-- Raises ranks, one per message, until each is at least those of the messages that it waits for,
-- plus its step. Node n is waited for by the nodes of the edges first_edge[n] to before
-- first_edge[n + 1]. wait_counts: for how many messages each waits. Follows each wait once. ready:
-- the messages that were ranked; the others wait for themselves.
create or replace function relaybox_internal.rank_nodes(
    inout ranks bigint[], steps integer[], wait_counts integer[], first_edge integer[],
    later_nodes integer[], out ready integer[]
)
language plpgsql immutable
as $$
declare
    ready_count integer;
    done_count integer := 0;
    node integer;
    later integer;
begin
    ready := array(
        select o.node::integer
        from unnest(wait_counts) with ordinality o (wait_count, node) where o.wait_count = 0
    );
    ready_count := cardinality(ready);
    while done_count < ready_count loop
        done_count := done_count + 1;
        node := ready[done_count];
        for edge in first_edge[node] .. first_edge[node + 1] - 1 loop
            later := later_nodes[edge];
            ranks[later] := greatest(ranks[later], ranks[node] + steps[later]);
            wait_counts[later] := wait_counts[later] - 1;
            if wait_counts[later] = 0 then
                ready_count := ready_count + 1;
                ready[ready_count] := later;
            end if;
        end loop;
    end loop;
end
$$;
