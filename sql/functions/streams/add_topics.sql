-- Source: has a hop carry these topics too, from its next batch on; a hop that reads a log asks its own upstream for them by the log's
-- stream. Idempotent; returns how many are new. Locks the hop's row, as planning does.
create or replace function relaybox.add_topics(hop_name text, topics_ text[]) returns integer
language plpgsql volatile
as $$
declare
    added integer;
begin
    perform relaybox.require_writable_primary();
    select cardinality(array(select unnest(topics_) except select unnest(h.topics))) into added
    from relaybox.hop_out h where h.hop = hop_name and h.reads_log is null for update;
    if added > 0 then
        perform relaybox.change_topics(hop_name, array(
            select unnest(h.topics) from relaybox.hop_out h where h.hop = hop_name union select unnest(topics_) order by 1
        ));
    elsif added is null then
        insert into relaybox.stream_topic (stream_id, topic)
        select l.stream_id, t.topic
        from relaybox.hop_out h
        join relaybox.stream_log l on l.hop_id = h.reads_log
        cross join unnest(topics_) as t (topic)
        where h.hop = hop_name
        on conflict do nothing;
        get diagnostics added = row_count;
    end if;
    return added;
end
$$;
