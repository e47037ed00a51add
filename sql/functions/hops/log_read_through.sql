-- Returns the position of its log through which a hop has read: the destination has every message
-- up to there. 0: nothing is read, or the hop reads the outbox.
create or replace function relaybox_internal.log_read_through(hop_name text) returns bigint
language sql stable
as $$
    select case
        when h.reads_log is null then 0
        else coalesce(
            (
                select b.reads_through
                from relaybox_internal.batch b where b.hop = h.hop and b.batch = h.batch
            ),
            h.compacted_read
        )
    end
    from relaybox_internal.hop_out h
    where h.hop = hop_name
$$;
