-- Sets release_rank in pg_temp.causal_message. A message gets a higher rank than those that it
-- waits for and that are released at the same moment. A message that was set aside passes on the
-- rank of those before it. Begins with the messages that wait for nothing and follows each wait
-- once. Returns whether messages are left that wait for themselves. pg_temp.release_order then has
-- their waits, and is empty otherwise.
create or replace function relaybox_internal.rank_clocked() returns boolean
language plpgsql volatile
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    ranks bigint[];
    steps integer[];
    wait_counts integer[];
    earlier_nodes integer[];
    later_nodes integer[];
    first_edge integer[];
    ready integer[];
begin
    delete from pg_temp.release_order;
    insert into pg_temp.release_order (arrival_seq, follows_seq, is_by_clock)
    select w.arrival_seq, w.follows_seq, w.is_by_clock
    from relaybox_internal.waits_at_once() w;
    -- the sum of a clock grows along every chain of causes; a message set aside has no rank
    select
        array_agg(
            case
                when c.outcome is null
                    then least(9000000000000000000, c.index + c.clock_sum)::bigint
                else 0
            end order by c.node
        ),
        array_agg((c.outcome is null)::integer order by c.node)
    into ranks, steps
    from pg_temp.causal_message c;
    wait_counts := array(
        select (
            select count(*) from pg_temp.release_order w where w.arrival_seq = c.arrival_seq
        )::integer
        from pg_temp.causal_message c order by c.node
    );
    -- an edge leads from a message to one that follows it
    select array_agg(earlier.node order by earlier.node),
        array_agg(waiting.node order by earlier.node)
    into earlier_nodes, later_nodes
    from pg_temp.release_order w
    join pg_temp.causal_message earlier on earlier.arrival_seq = w.follows_seq
    join pg_temp.causal_message waiting on waiting.arrival_seq = w.arrival_seq;
    first_edge := relaybox_internal.edge_starts(cardinality(ranks), earlier_nodes);
    select n.ranks, n.ready into ranks, ready
    from relaybox_internal.rank_nodes(ranks, steps, wait_counts, first_edge, later_nodes) n;
    update pg_temp.causal_message c
    set release_rank = n.rank
    from unnest(ranks) with ordinality n (rank, node) where c.node = n.node;
    delete from pg_temp.release_order w
    using unnest(ready) r (node) join pg_temp.causal_message c on c.node = r.node
    where w.arrival_seq = c.arrival_seq;
    return exists (select from pg_temp.release_order);
end
$$;
