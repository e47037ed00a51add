-- The rows of this outbox with a message id: one, unless a producer chose an id twice. Committed
-- ones only. committed_at is null without track_commit_timestamp. A sealed segment is looked at only if
-- the id is between its lowest and its highest: ids that the store gives are in the order of time, so
-- that is one or two segments. Where a producer chooses ids at random it is each segment.
create or replace function relaybox_internal.trace_sent(message_id_ uuid)
returns table (
    seq bigint, xid xid8, topic text, sender text, epoch integer, index bigint,
    sent_at timestamptz, committed_at timestamptz
)
language plpgsql stable
set plan_cache_mode = force_custom_plan -- each segment is planned for by itself
set enable_seqscan = off
as $$
declare
    last_seq_ constant bigint := 9223372036854775807;
    first_kept constant bigint := (select s.first_kept_seq from relaybox_internal.store s);
    sealed_seq constant bigint := relaybox_internal.sealed_through(relaybox_internal.full_snapshot());
    part record;
begin
    for part in
        select s.first_seq, s.last_seq
        from relaybox_internal.sealed_segment s
        where s.last_seq <= sealed_seq and (
            s.first_message_id is null
            or message_id_ >= s.first_message_id and message_id_ <= s.last_message_id
            -- came with a dump: not a seal, so rows may have come
            or s.xmin::text::bigint <> s.sealed_xid::text::numeric % 4294967296
        )
        union all
        select greatest(sealed_seq + 1, first_kept), last_seq_
        union all
        select 1, first_kept - 1 where first_kept > 1 -- rows of a sequence that was set back
        order by 1
    loop
        return query
        select
            o.seq, o.xid, o.topic, o.sender, o.epoch, o.index, o.sent_at,
            case
                when current_setting('track_commit_timestamp') = 'on'
                    then pg_xact_commit_timestamp(o.xid::xid)
            end
        from relaybox_internal.sent_rows o
        where o.message_id = message_id_ and o.seq >= part.first_seq and o.seq <= part.last_seq
        order by o.seq;
    end loop;
end
$$;
