-- Source: makes a hop carry topics that consumers asked for, from its next batch on. A hop that
-- reads a log asks its own upstream for them through the log's stream. Idempotent; returns how many
-- topics are new. Locks the hop's row, as planning does.
create or replace function relaybox_internal.add_topics(hop_name text, topics_ text[])
returns integer
language plpgsql volatile
as $$
declare
    new_topics text[];
begin
    perform relaybox_internal.require_writable_primary();
    select array(select unnest(topics_) except select unnest(h.topics) order by 1) into new_topics
    from relaybox_internal.hop_out h where h.hop = hop_name and h.reads_log is null for update;
    if not found then
        return coalesce((
            select relaybox_internal.ask_for_topics(l.stream_id, topics_)
            from relaybox_internal.hop_out h
            join relaybox_internal.stream_log l on l.log_id = h.reads_log
            where h.hop = hop_name
        ), 0);
    end if;
    if new_topics <> '{}' then
        update relaybox_internal.hop_out h
        set subscribed_topics = h.subscribed_topics || new_topics
        where h.hop = hop_name;
        perform relaybox_internal.change_topics(hop_name, array(
            select unnest(h.topics)
            from relaybox_internal.hop_out h where h.hop = hop_name
            union select unnest(new_topics)
            order by 1
        ));
    end if;
    return cardinality(new_topics);
end
$$;
