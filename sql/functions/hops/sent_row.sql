-- The row of the outbox with a seq, without its content. No row: there is none. Planned with the seq,
-- so that only its segment is looked at.
create or replace function relaybox_internal.sent_row(seq_ bigint)
returns table (xid xid8, topic text, sent_at timestamptz)
language plpgsql stable
set plan_cache_mode = force_custom_plan
set enable_seqscan = off
as $$
begin
    return query
    select o.xid, o.topic, o.sent_at from relaybox_internal.sent_rows o where o.seq = seq_;
end
$$;
