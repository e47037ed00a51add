-- Returns whether there is anything that this hop has not moved. A planned batch that is not
-- confirmed counts as work. For pollers: answered from an index, and a moment old at most.
create or replace function relaybox_internal.hop_has_work(hop_name text) returns boolean
language sql stable
as $$
    select coalesce((
        select
            h.batch > coalesce(
                (
                    select c.through_batch
                    from relaybox_internal.newest_confirmation(hop_name, 'received') c
                ),
                0
            )
            or exists (
                select from relaybox_internal.backlog p where p.hop = h.hop and p.state = 'routed'
            )
            or case
                when h.reads_log is not null then
                    (
                        select i.published_position
                        from relaybox_internal.hop_in i where i.log_id = h.reads_log
                    )
                    > relaybox_internal.log_read_through(h.hop)
                else exists (
                    select from relaybox_internal.sent_rows o
                    where o.xid >= pg_snapshot_xmax(h.lower)
                        and o.xid < pg_snapshot_xmax(pg_current_snapshot())
                        and o.topic = any(h.topics) and o.seq + 0 > h.anchor_seq
                ) or exists (
                    select from relaybox_internal.sent_rows o
                    where o.xid = any(array(select x from pg_snapshot_xip(h.lower) x))
                        and o.topic = any(h.topics) and o.seq + 0 > h.anchor_seq
                )
            end
        from relaybox_internal.hop_out h
        where h.hop = hop_name and h.retired_at is null
    ), false)
$$;
