-- Sets release_seq in pg_temp.causal_message: as late as the latest cause and the sender's own
-- earlier messages. The largest number means never. The end of an epoch releases what waited in it.
-- Works in arrays: rows would leave a dead version per change.
create or replace function relaybox_internal.spread_times() returns void
language plpgsql volatile
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    never constant bigint := 9223372036854775807;
    release_seqs bigint[];
    epoch_ends bigint[];
    has_next_of_sender boolean[];
    cause_nodes integer[];
    waiting_nodes integer[];
    latest_releases bigint[];
begin
    if not exists (select from pg_temp.unmet_cause) then
        return;
    end if;
    select
        array_agg(
            least(greatest(c.release_seq, u.unknown_until), e.ended_at_seq) order by c.node
        ),
        array_agg(e.ended_at_seq order by c.node)
    into release_seqs, epoch_ends
    from pg_temp.causal_message c
    left join (
        select x.arrival_seq, max(coalesce(x.ended_at_seq, never)) as unknown_until
        from pg_temp.unmet_cause x where x.cause_seq is null group by x.arrival_seq
    ) u on u.arrival_seq = c.arrival_seq
    left join pg_temp.epoch_end e on e.sender_id = c.sender_id;
    has_next_of_sender := array(
        select lead(c.sender_id) over (order by c.node) is not distinct from c.sender_id
        from pg_temp.causal_message c order by c.node
    );
    -- an edge leads from a message to one that waits for it, until the named epoch ends at most
    select array_agg(cause.node order by cause.node), array_agg(waiting.node order by cause.node),
        array_agg(x.ended_at_seq order by cause.node)
    into cause_nodes, waiting_nodes, latest_releases
    from pg_temp.unmet_cause x
    join pg_temp.causal_message cause on cause.arrival_seq = x.cause_seq
    join pg_temp.causal_message waiting on waiting.arrival_seq = x.arrival_seq;
    release_seqs := relaybox_internal.follow_edges(
        release_seqs, epoch_ends, has_next_of_sender,
        relaybox_internal.edge_starts(cardinality(release_seqs), cause_nodes),
        waiting_nodes, latest_releases
    );
    update pg_temp.causal_message c set release_seq = n.release_seq
    from unnest(release_seqs) with ordinality n (release_seq, node)
    where c.node = n.node and c.release_seq <> n.release_seq;
end
$$;
