-- Returns whether the outbox has a row of these topics that became visible since a snapshot, or will.
-- after_seq, sealed_seq, first_kept: as of unsealed_buckets(). Planned with the values of the call, and without
-- bitmaps: those would read all entries of the index where the first row is the answer.
create or replace function relaybox_internal.outbox_has_work(
    lower_ pg_snapshot, topics_ text[], after_seq bigint, sealed_seq bigint, first_kept bigint
)
returns boolean
language plpgsql stable
set plan_cache_mode = force_custom_plan
set enable_bitmapscan = off
as $$
begin
    return exists (
        select from relaybox_internal.sent_rows o
        where o.xid >= pg_snapshot_xmax(lower_)
            and o.xid < pg_snapshot_xmax(pg_current_snapshot())
            and o.topic = any(topics_) and o.seq + 0 > after_seq
            and (o.seq > sealed_seq or o.seq < first_kept)
    ) or exists (
        select from relaybox_internal.sent_rows o
        where o.xid = any(array(select x from pg_snapshot_xip(lower_) x))
            and o.topic = any(topics_) and o.seq + 0 > after_seq
            and (o.seq > sealed_seq or o.seq < first_kept)
    );
end
$$;
