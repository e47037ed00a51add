-- The indexes that ghosts hold: those of the temporary table relaybox_adopted, made by the caller,
-- whose senders number their messages. The destination has accepted these indexes, so that it sets
-- aside, or drops as a duplicate, what its source sends with one of them. undelivered_count: such
-- messages that the hop reads next, from its backlog or its log. One row per sender and epoch.
-- Caller has made the backlog (rebuild_backlog()) or has called adopt_reads().
create or replace function relaybox_internal.find_held_indexes(hop_name text)
returns table (
    sender text, epoch integer, ghost_count bigint, first_index bigint, last_index bigint,
    undelivered_count bigint
)
language sql stable
as $$
    with held as materialized (
        select a.sender, a.epoch, a.index
        from relaybox_adopted a where a.is_ghost and a.epoch > 0
    ), unread as (
        select o.sender, o.epoch, o.index
        from relaybox_internal.backlog_seqs(array[hop_name], 0, 9223372036854775806) b
        join relaybox_internal.sent_rows o on o.seq = b.seq
        where b.state = 'routed' and exists (select from held)
        union all
        select l.sender, l.epoch, l.index
        from relaybox_internal.hop_out h
        cross join lateral relaybox_internal.log_unread(hop_name) u
        join relaybox_internal.log l on l.log_id = h.reads_log
            and l.log_position >= u.first_read and l.log_position <= u.last_read
        where h.hop = hop_name and exists (select from held)
    ), repeated as (
        select u.sender, u.epoch, count(*) as message_count
        from unread u
        where (u.sender, u.epoch, u.index) in (select h.sender, h.epoch, h.index from held h)
        group by u.sender, u.epoch
    )
    select h.sender, h.epoch, count(*), min(h.index), max(h.index),
        coalesce(min(r.message_count), 0)
    from held h left join repeated r on r.sender = h.sender and r.epoch = h.epoch
    group by h.sender, h.epoch
    order by h.sender, h.epoch
$$;
