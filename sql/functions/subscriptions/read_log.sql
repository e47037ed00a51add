-- Reads published messages of a hop's log after a position, in order. Locks the log in ACCESS SHARE
-- mode if there is something to read. Never returns fewer messages than there are without an error.
create or replace function relaybox.read_log(
    hop_name text, after_position bigint default 0, max_count integer default 1000
)
returns table (
    log_position bigint, message_id uuid, topic text, sender text, epoch integer, index bigint,
    key text, payload text, payload_bytes bytea, headers jsonb, clock jsonb, sent_at timestamptz
)
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
declare
    source relaybox_internal.hop_in;
    through_position bigint;
    found_count bigint;
begin
    perform relaybox_internal.require_count(max_count);
    source := relaybox_internal.find_log(hop_name, after_position);
    if after_position >= source.published_position then
        return;
    end if;
    perform relaybox_internal.keep_segments(source.log_id);
    -- a later statement than the lock: what is kept now stays
    source := relaybox_internal.find_log(hop_name, after_position);
    after_position := greatest(after_position, source.first_kept_position - 1);
    through_position := least(source.published_position, after_position + max_count);
    perform relaybox_internal.require_log_topics(source, after_position, through_position)
    from relaybox_internal.store s where s.bind_topics;
    return query
    select
        l.log_position, l.message_id, l.topic, l.sender, l.epoch, l.index, l.key, l.payload,
        l.payload_bytes, l.headers, l.clock, l.sent_at
    from relaybox_internal.log l
    where l.log_id = source.log_id
        and l.log_position > after_position and l.log_position <= through_position
    order by l.log_position
    limit max_count;
    get diagnostics found_count = row_count;
    if found_count < through_position - after_position then
        perform relaybox_internal.refuse_missing_messages(
            format(
                'hop %s, positions %s to %s', hop_name, after_position + 1, through_position
            ),
            array[source.log_id], through_position - after_position - found_count
        );
    end if;
end
$$;

comment on function relaybox.read_log(text, bigint, integer) is
'Reads published messages of the log of one hop, in log order, duplicates included. Changes nothing.
`hop_name`: a hop that arrives in this store, such as flights/1.
`after_position`: the log position of the last message that you have; 0 or null: from the first
    kept message.
`max_count`: greatest number of messages.
Returns the columns of relaybox.inbox without `hop`.
Errors: RB004 (no such hop arrives here), RB012 (messages are missing from the log), RB034 (no
    longer kept), RB036 (no max_count), RB038 (detached), RB041 (the log has a topic that the
    role may not read), 40001 (the transaction began before segments were dropped: repeat it).';
