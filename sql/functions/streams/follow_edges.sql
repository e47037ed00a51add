-- Moves release_seqs, one per message, to later numbers until no message is released before one
-- that it waits for. It waits for the message before it of its sender (has_next_of_sender of that
-- one), and for those whose edges lead to it: node n has the edges first_edge[n] to before
-- first_edge[n + 1]. No message waits longer than its epoch, nor for an edge longer than
-- latest_releases. Begins with the latest message: a number that is set so hardly ever changes
-- again, and each edge is followed about once.
create or replace function relaybox_internal.follow_edges(
    release_seqs bigint[], epoch_ends bigint[], has_next_of_sender boolean[], first_edge integer[],
    waiting_nodes integer[], latest_releases bigint[]
)
returns bigint[]
language plpgsql immutable
as $$
declare
    stack integer[] := array(
        select o.node::integer
        from unnest(release_seqs) with ordinality o (release_seq, node)
        order by o.release_seq
    );
    depth integer := cardinality(stack);
    node integer;
    later integer;
    found_seq bigint;
begin
    while depth > 0 loop
        node := stack[depth];
        depth := depth - 1;
        if has_next_of_sender[node] then
            later := node + 1;
            found_seq := least(release_seqs[node], epoch_ends[later]);
            if found_seq > release_seqs[later] then
                release_seqs[later] := found_seq;
                depth := depth + 1;
                stack[depth] := later;
            end if;
        end if;
        for edge in first_edge[node] .. first_edge[node + 1] - 1 loop
            later := waiting_nodes[edge];
            found_seq := least(release_seqs[node], latest_releases[edge], epoch_ends[later]);
            if found_seq > release_seqs[later] then
                release_seqs[later] := found_seq;
                depth := depth + 1;
                stack[depth] := later;
            end if;
        end loop;
    end loop;
    return release_seqs;
end
$$;
