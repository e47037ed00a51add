-- The backlog of a hop that reads the outbox, made anew for a generation that begins at the store's anchor: what no batch up to `common_batch`
-- read, no older generation adopted, and the destination has not (temporary table relaybox_adopted, made by the caller). Up to the anchor by
-- seq alone, above it from `lower_` on. Rows and the pairs of the ledger carry the numbers of one cluster each, whichever it was: a row is
-- found in its batch as ever. What was unrouted or retired stays so. Returns the routed messages, and the seqs that the destination has.
-- Caller holds the hop's row.
create or replace function relaybox_internal.rebuild_backlog(
    hop_name text, common_batch bigint, anchor bigint, lower_ pg_snapshot, out undelivered_count bigint, out adopted_seqs int8multirange
)
language plpgsql volatile
as $$
declare
    head relaybox_internal.hop_out := (select h from relaybox_internal.hop_out h where h.hop = hop_name);
    -- a topic of what the destination has was the hop's, although this ledger may have forgotten that it came
    topics_ text[] := array(select unnest(relaybox_internal.hop_topics(hop_name)) union select a.topic from relaybox_adopted a order by 1);
    unrouted text[] := array(select unnest(topics_) except select unnest(head.topics) order by 1);
begin
    select coalesce(range_agg(int8range(o.seq, o.seq, '[]')), '{}') into adopted_seqs
    from (
        select o.seq, o.message_id, o.sent_at, row_number() over (partition by o.message_id, o.sent_at order by o.seq) as copy
        from relaybox.outbox o
        where o.seq <= anchor and o.message_id in (select message_id from relaybox_adopted)
    ) o
    join (
        select message_id, sent_at, row_number() over (partition by message_id, sent_at order by log_position) as copy from relaybox_adopted
    ) a on a.message_id = o.message_id and a.sent_at = o.sent_at and a.copy = o.copy;
    create temporary table relaybox_left_over on commit drop as
    select
        o.seq, o.topic,
        case when r.seq is not null then 'retired' when o.topic = any(head.topics) then 'routed' else 'unrouted' end as state,
        r.retired_by, r.retired_reason, d.delivered
    from relaybox.outbox o
    left join (
        select b.seq, min(p.retired_by) as retired_by, min(p.retired_reason) as retired_reason
        from relaybox_internal.backlog_seqs(hop_name, 0, anchor) b
        join relaybox_internal.backlog p on p.hop = hop_name and p.backlog_id = b.backlog_id
        where b.state = 'retired' group by b.seq
    ) r on r.seq = o.seq
    left join (
        select b.seq from relaybox_internal.read_seqs(hop_name, 0, anchor, common_batch) b
        union
        select o.seq from relaybox_internal.generation g cross join lateral unnest(g.adopted_seqs) a (seqs)
        join relaybox.outbox o on o.seq >= lower(a.seqs) and o.seq < upper(a.seqs)
        where g.hop = hop_name
        union
        select o.seq from unnest(rebuild_backlog.adopted_seqs) a (seqs) join relaybox.outbox o on o.seq >= lower(a.seqs) and o.seq < upper(a.seqs)
    ) b on b.seq = o.seq
    cross join lateral (select b.seq is not null as delivered) d
    where o.seq <= anchor and o.topic = any(topics_);
    delete from relaybox_internal.backlog p where p.hop = hop_name;
    insert into relaybox_internal.backlog (hop, topics, lower, upper, seqs, state, retired_by, retired_reason)
    select
        hop_name, case when s.state = 'routed' then head.topics else s.topics end, '1:1:', relaybox_internal.full_snapshot(), s.seqs, s.state, s.retired_by,
        s.retired_reason
    from (
        select r.state, r.retired_by, r.retired_reason, array_agg(distinct r.topic order by r.topic) as topics, range_agg(r.seqs) as seqs
        from (
            -- runs of rows of one kind, in the order of all rows of the hop's topics: no slice reads across another one's
            select i.state, i.retired_by, i.retired_reason, i.topic, int8range(min(i.seq), max(i.seq), '[]') as seqs
            from (
                select
                    l.*,
                    row_number() over (order by l.seq)
                    - row_number() over (partition by l.state, l.delivered, l.retired_by, l.retired_reason order by l.seq) as island
                from relaybox_left_over l
            ) i
            where not i.delivered
            group by i.state, i.retired_by, i.retired_reason, i.topic, i.island
        ) r
        group by r.state, r.retired_by, r.retired_reason
    ) s
    order by s.state;
    if unrouted <> '{}' then
        insert into relaybox_internal.backlog (hop, topics, lower, seqs, state)
        values (hop_name, unrouted, lower_, int8multirange(int8range(anchor + 1, 9223372036854775807)), 'unrouted');
    end if;
    select count(*) into undelivered_count from relaybox_left_over l where l.state = 'routed' and not l.delivered;
    drop table relaybox_left_over;
end
$$;
