-- Counts, per topic, the messages of the outbox that no hop of this store moved, moves or has given
-- up: nothing will ever move them. Reads only the newest seqs, so that a report stays cheap for an
-- outbox of any length.
create or replace function relaybox_internal.unrouted_topics(newest bigint)
returns table (topic text, message_count bigint, first_sent_at timestamptz)
language plpgsql stable
set plan_cache_mode = force_custom_plan -- only the newest segments are looked at
set enable_seqscan = on -- each row of them is read: by far the cheapest way for a whole segment
as $$
declare
    routed text[] := array(
        select distinct unnest(h.topics)
        from relaybox_internal.hop_out h where h.reads_log is null and h.retired_at is null
    );
    last_seq bigint := (select q.last_value from relaybox.outbox_seq q);
    after_seq bigint := greatest(last_seq - newest, 0);
begin
    if not exists (select from relaybox_internal.sent_rows o where o.seq > after_seq and o.topic <> all(routed))
    then
        return;
    end if;
    return query
    select o.topic, count(*), min(o.sent_at)
    from relaybox_internal.sent_rows o
    where o.seq > after_seq and o.topic <> all(routed) and not exists (
        select from relaybox_internal.accounted_seqs(
            array(select h.hop from relaybox_internal.hop_out h where h.reads_log is null), after_seq, last_seq
        ) a
        where a.state in ('delivered', 'planned', 'retired') and a.seq = o.seq
    )
    group by o.topic
    order by o.topic;
end
$$;
