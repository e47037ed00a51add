-- Returns whether there is anything that this hop has not moved. A planned batch that is not
-- confirmed counts as work. For pollers: answered from an index, and a moment old at most. The outbox
-- is asked without the segments that were sealed before the hop's newest snapshot (outbox_buckets).
create or replace function relaybox_internal.hop_has_work(hop_name text) returns boolean
language plpgsql stable
as $$
declare
    head record;
begin
    select
        h.lower, h.topics, h.anchor_seq, h.reads_log,
        relaybox_internal.has_unfinished(h.hop, h.batch)
        or h.reads_log is not null and (
            select i.published_position
            from relaybox_internal.hop_in i where i.log_id = h.reads_log
        )
        > relaybox_internal.log_read_through(h.hop) as has_work
    into head
    from relaybox_internal.hop_out h
    where h.hop = hop_name and h.retired_at is null;
    if not found then
        return false;
    elsif head.has_work or head.reads_log is not null then
        return coalesce(head.has_work, false);
    end if;
    return relaybox_internal.outbox_has_work(
        head.lower, head.topics, head.anchor_seq, relaybox_internal.sealed_through(head.lower),
        (select s.first_kept_seq from relaybox_internal.store s)
    );
end
$$;
