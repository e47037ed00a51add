-- Counts, per topic, the messages that the outbox keeps of topics that were taken from a hop, and
-- of topics that no hop ever had, without those that were given up. Reads the pieces of the hop's
-- backlog along the primary key, and the outbox if there are topics without a hop.
create or replace function relaybox_internal.unrouted_backlog(hop_name text)
returns table (topic text, message_count bigint, first_sent_at timestamptz)
language sql stable
as $$
    select o.topic, count(*), min(o.sent_at)
    from relaybox_internal.backlog_seqs(array[hop_name], 0, 9223372036854775806) b
    join relaybox_internal.sent_rows o on o.seq = b.seq
    where b.state = 'unrouted'
    group by o.topic
    union all
    select t.topic, t.message_count, t.first_sent_at
    from relaybox_internal.unrouted_topics(9223372036854775807) t
    where t.topic <> all(relaybox_internal.hop_topics(hop_name))
    order by 1
$$;
