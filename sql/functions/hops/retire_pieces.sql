-- Retires the unrouted pieces of a hop's backlog that are of some topics, up to a snapshot. What
-- commits after it stays unrouted, in pieces of its own. Returns the number of retired pieces.
-- Caller holds the hop's row.
create or replace function relaybox_internal.retire_pieces(
    hop_name text, topics_ text[], until pg_snapshot, reason text, recorded_by text
)
returns bigint
language plpgsql volatile
as $$
declare
    -- excludes later rows, even if a reload gave them lower transaction numbers
    written constant int8multirange := (
        select int8multirange(int8range(1, q.last_value, '[]')) from relaybox.outbox_seq q
    );
    newest constant bigint := (
        select coalesce(max(p.backlog_id), 0)
        from relaybox_internal.backlog p where p.hop = hop_name
    );
    piece_count bigint;
begin
    -- rows of transactions that are open now commit later: they stay unrouted
    insert into relaybox_internal.backlog (hop, topics, lower, seqs, state)
    select hop_name, array(select unnest(p.topics) intersect select unnest(topics_) order by 1),
        until, p.seqs, 'unrouted'
    from relaybox_internal.backlog p
    where p.hop = hop_name and p.upper is null and p.topics && topics_;
    insert into relaybox_internal.backlog (
        hop, topics, lower, upper, seqs, state, retired_by, retired_reason
    )
    select
        hop_name, array(select unnest(p.topics) intersect select unnest(topics_) order by 1),
        p.lower, coalesce(p.upper, until), p.seqs * written, 'retired', recorded_by, reason
    from relaybox_internal.backlog p
    where p.hop = hop_name and p.backlog_id <= newest and p.state = 'unrouted'
        and p.topics && topics_ and p.seqs && written
    order by p.backlog_id;
    get diagnostics piece_count = row_count;
    delete from relaybox_internal.backlog p
    where p.hop = hop_name and p.backlog_id <= newest and p.state = 'unrouted'
        and p.topics <@ topics_;
    update relaybox_internal.backlog p
    set topics = array(select unnest(p.topics) except select unnest(topics_) order by 1)
    where p.hop = hop_name and p.backlog_id <= newest and p.state = 'unrouted'
        and p.topics && topics_;
    return piece_count;
end
$$;
