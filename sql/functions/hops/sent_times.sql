-- When the rows of the outbox with these seqs were sent. Planned with the seqs, so that only their
-- segments are looked at.
create or replace function relaybox_internal.sent_times(seqs bigint[])
returns table (seq bigint, sent_at timestamptz)
language plpgsql stable
set plan_cache_mode = force_custom_plan
set enable_seqscan = off
as $$
begin
    if cardinality(seqs) = 0 then
        return;
    end if;
    return query
    select o.seq, o.sent_at from relaybox_internal.sent_rows o where o.seq = any(seqs);
end
$$;
