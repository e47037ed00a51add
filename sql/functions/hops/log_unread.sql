-- The runs of positions of its log that a hop has not read yet, in order, without those that the
-- destination has already.
create or replace function relaybox_internal.log_unread(hop_name text)
returns table (first_read bigint, last_read bigint)
language sql stable
as $$
    select lower(r.run), upper(r.run) - 1
    from relaybox_internal.hop_out h
    join relaybox_internal.hop_in i on i.log_id = h.reads_log
    cross join lateral relaybox_internal.log_read_through(h.hop) as read_through
    cross join lateral unnest(
        int8multirange(
            int8range(read_through + 1, greatest(i.published_position, read_through) + 1)
        ) - h.read_ahead
    ) r (run)
    where h.hop = hop_name
    order by 1
$$;
