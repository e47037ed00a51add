-- Gives the part of a hop's backlog that is of some topics another state; the rest of each piece
-- stays. If upper_ is given, a piece without an end ends there, and is removed if nothing is before
-- it. In the order of the pieces. Caller holds the hop's row.
create or replace function relaybox_internal.split_backlog(
    hop_name text, from_state text, topics_ text[], to_state text, upper_ pg_snapshot
)
returns void
language plpgsql volatile
as $$
declare
    written int8multirange := (
        select int8multirange(int8range(1, q.last_value, '[]')) from relaybox.outbox_seq q
    );
begin
    insert into relaybox_internal.backlog (hop, topics, lower, upper, seqs, state)
    select
        p.hop, array(select unnest(p.topics) intersect select unnest(topics_) order by 1), p.lower,
        coalesce(p.upper, upper_),
        case when p.upper is null and upper_ is not null then p.seqs * written else p.seqs end,
        to_state
    from relaybox_internal.backlog p
    where p.hop = hop_name and p.state = from_state and p.topics && topics_
        and (
            p.upper is not null or upper_ is null
                or (p.lower::text <> upper_::text and p.seqs && written)
        )
    order by p.backlog_id;
    delete from relaybox_internal.backlog p
    where p.hop = hop_name and p.state = from_state and p.topics <@ topics_;
    update relaybox_internal.backlog p
    set topics = array(select unnest(p.topics) except select unnest(topics_) order by 1)
    where p.hop = hop_name and p.state = from_state and p.topics && topics_;
end
$$;
