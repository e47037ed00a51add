-- What a hop that reads the outbox left there of topics that were taken from it: messages that nobody has given up, per topic. Reads the
-- pieces of its backlog along the primary key.
create or replace function relaybox.unrouted_backlog(hop_name text)
returns table (topic text, message_count bigint, first_sent_at timestamptz)
language sql stable
as $$
    select o.topic, count(*), min(o.sent_at)
    from relaybox.backlog_seqs(hop_name, 0, 9223372036854775806) b
    join relaybox.outbox o on o.seq = b.seq
    where b.state = 'unrouted'
    group by o.topic
    order by o.topic
$$;
