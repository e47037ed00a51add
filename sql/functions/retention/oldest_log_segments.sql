-- The oldest segment of each log of this store, with the reader that needs a row of it and the first
-- that it needs, as segment_needed_by() says it; holder is null: none does. segment is null: the log has
-- none. Of all logs in one statement, so that retention calls drop_oldest_segment() only for logs of
-- which something may go.
create or replace function relaybox_internal.oldest_log_segments()
returns table (log_id integer, hop text, segment regclass, holder text, needs_from bigint)
language sql stable
as $$
    select i.log_id, i.hop, s.segment, n.holder, n.needs_from
    from relaybox_internal.hop_in i
    left join lateral (
        select s.segment, s.last from relaybox_internal.segments() s
        where s.log_id = i.log_id order by s.first limit 1
    ) s on true
    left join lateral (
        select format('%s %s', h.kind, h.holder) as holder, h.needs_from
        from relaybox_internal.log_holders(i.log_id) h
        where h.needs_from <= s.last
        order by h.needs_from, h.kind
        limit 1
    ) n on true
    order by i.hop
$$;
