-- Moves a hop's frontier to this moment and returns it. What the frontier passes of the hop's
-- topics becomes the last piece of the backlog. For callers whose work needs a frontier that is not
-- older than the work. Caller holds the hop's row, has written nothing to the outbox, and commits
-- durably.
create or replace function relaybox_internal.advance_frontier(hop_name text) returns pg_snapshot
language plpgsql volatile
as $$
declare
    head relaybox_internal.hop_out := (
        select h from relaybox_internal.hop_out h where h.hop = hop_name
    );
    frontier pg_snapshot := pg_current_snapshot();
begin
    insert into relaybox_internal.backlog (hop, topics, lower, upper, seqs)
    select hop_name, head.topics, head.lower, frontier,
        int8multirange(int8range(b.first_seq, b.last_seq, '[]'))
    from relaybox_internal.outbox_buckets(
        head.lower, frontier, head.topics, 4611686018427387904, head.anchor_seq
    ) b;
    update relaybox_internal.hop_out set lower = frontier where hop = hop_name;
    return frontier;
end
$$;
