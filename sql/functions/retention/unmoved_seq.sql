-- The first seq of the outbox in (after, through] that no hop has moved and that was not given up:
-- no hop has its topic, or the topic was taken from all hops before they moved it. Null: none.
-- Reads the whole range: call it only for segments without another holder.
create or replace function relaybox_internal.unmoved_seq(after_seq bigint, through_seq bigint)
returns bigint
language plpgsql stable
set enable_seqscan = on
set plan_cache_mode = force_custom_plan -- only the segments of the range are looked at
as $$
begin
    return (
    select min(o.seq)
    from relaybox_internal.sent_rows o
    where o.seq > after_seq and o.seq <= through_seq and not exists (
        select
        from relaybox_internal.accounted_seqs(
            array(select h.hop from relaybox_internal.hop_out h where h.reads_log is null),
            after_seq, through_seq
        ) a
        where a.state in ('delivered', 'planned', 'retired') and a.seq = o.seq
    )
    );
end
$$;
