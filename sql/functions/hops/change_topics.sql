-- Makes a hop that reads the outbox move exactly these topics from its next batch on. What it has
-- not planned of a removed topic stays in the outbox as unrouted backlog. What it has not read of
-- an added topic is read first. Planned batches do not change. Returns whether the topics changed.
-- Locks the hop's row, as planning does. Raises RB004.
create or replace function relaybox_internal.change_topics(hop_name text, topics_ text[])
returns boolean
language plpgsql volatile
as $$
declare
    no_end constant bigint := 9223372036854775807;
    head relaybox_internal.hop_out;
    removed text[];
    added text[];
    unknown text[];
begin
    select * into head
    from relaybox_internal.hop_out h where h.hop = hop_name and h.reads_log is null
    for update;
    if not found then
        raise exception using errcode = 'RB004',
            message = format('hop %s does not read the outbox of this store', hop_name),
            hint = 'Run: relaybox init';
    end if;
    removed := array(select unnest(head.topics) except select unnest(topics_) order by 1);
    added := array(select unnest(topics_) except select unnest(head.topics) order by 1);
    update relaybox_internal.hop_out h
    set topics = topics_
    where h.hop = hop_name and h.topics <> topics_;
    if removed = '{}' and added = '{}' then
        return false;
    end if;
    if removed <> '{}' then
        perform relaybox_internal.split_backlog(hop_name, 'routed', removed, 'unrouted', null);
        insert into relaybox_internal.backlog (hop, topics, lower, seqs, state)
        values (
            hop_name, removed, head.lower, int8multirange(int8range(head.anchor_seq + 1, no_end)),
            'unrouted'
        );
    end if;
    -- a topic that the hop had before has a piece without an end
    unknown := array(
        select a.topic from unnest(added) a (topic)
        where not exists (
            select from relaybox_internal.backlog p
            where p.hop = hop_name and p.upper is null and a.topic = any(p.topics)
        )
        order by 1
    );
    perform relaybox_internal.split_backlog(hop_name, 'unrouted', added, 'routed', head.lower);
    if unknown <> '{}' and head.anchor_seq > 0 then
        insert into relaybox_internal.backlog (hop, topics, lower, upper, seqs)
        values (
            hop_name, unknown, '1:1:', relaybox_internal.full_snapshot(),
            int8multirange(int8range(1, head.anchor_seq, '[]'))
        );
    end if;
    if unknown <> '{}' and head.lower::text <> '1:1:' then
        insert into relaybox_internal.backlog (hop, topics, lower, upper, seqs)
        select hop_name, unknown, '1:1:', head.lower,
            int8multirange(int8range(head.anchor_seq + 1, q.last_value, '[]'))
        from relaybox.outbox_seq q where q.last_value > head.anchor_seq;
    end if;
    return true;
end
$$;
