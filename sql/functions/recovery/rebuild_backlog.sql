-- Makes the backlog of a hop that reads the outbox again, for a generation that begins at the
-- store's anchor. The backlog gets what no batch up to common_batch has read, no older generation
-- has adopted and the destination does not have. The temporary table relaybox_adopted, made by the
-- caller, says what the destination has. Rows up to the anchor are found by seq alone, later ones
-- from lower_ on. The snapshots of a batch and its rows have the numbers of one cluster, so that a
-- row is still found in its batch. What was unrouted or retired stays so. Returns the number of
-- routed messages, and the seqs that the destination has. Caller holds the hop's row.
create or replace function relaybox_internal.rebuild_backlog(
    hop_name text, common_batch bigint, anchor bigint, lower_ pg_snapshot,
    out undelivered_count bigint, out adopted_seqs int8multirange
)
language plpgsql volatile
as $$
declare
    head relaybox_internal.hop_out := (
        select h from relaybox_internal.hop_out h where h.hop = hop_name
    );
    -- the ledger may have forgotten that the hop got a topic: what the destination has shows it
    topics_ text[] := array(
        select unnest(relaybox_internal.hop_topics(hop_name))
        union
        select a.topic from relaybox_adopted a
        order by 1
    );
    unrouted text[] := array(select unnest(topics_) except select unnest(head.topics) order by 1);
begin
    adopted_seqs := relaybox_internal.find_adopted_seqs(anchor);
    create temporary table relaybox_outbox_state on commit drop as
    select *
    from relaybox_internal.list_outbox_states(head, topics_, common_batch, anchor, adopted_seqs);
    delete from relaybox_internal.backlog p where p.hop = hop_name;
    insert into relaybox_internal.backlog (
        hop, topics, lower, upper, seqs, state, retired_by, retired_reason
    )
    select
        hop_name, case when p.state = 'routed' then head.topics else p.topics end, '1:1:',
        relaybox_internal.full_snapshot(), p.seqs, p.state, p.retired_by, p.retired_reason
    from relaybox_internal.list_undelivered_pieces() p
    order by p.state;
    if unrouted <> '{}' then
        insert into relaybox_internal.backlog (hop, topics, lower, seqs, state)
        values (
            hop_name, unrouted, lower_,
            int8multirange(int8range(anchor + 1, 9223372036854775807)), 'unrouted'
        );
    end if;
    select count(*) into undelivered_count
    from relaybox_outbox_state o where o.state = 'routed' and not o.delivered;
    drop table relaybox_outbox_state;
end
$$;
