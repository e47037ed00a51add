-- Topics that no hop of this store reads, among the newest messages of the outbox: nobody will ever move them.
-- Looks at `newest` seqs, so that a report stays cheap however long the outbox is.
create or replace function relaybox.unrouted_topics(newest bigint)
returns table (topic text, message_count bigint, first_sent_at timestamptz)
language sql stable
as $$
    select o.topic, count(*), min(o.sent_at)
    from relaybox.outbox o
    where o.seq > (select q.last_value - newest from relaybox.outbox_seq q)
        and o.topic <> all(array(select unnest(h.topics) from relaybox.hop_out h where h.reads_log is null and h.retired_at is null))
    group by o.topic
    order by o.topic
$$;
