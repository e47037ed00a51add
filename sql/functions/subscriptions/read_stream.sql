-- Reads messages of a stream without a subscription. Plans are fixed by the settings below, since
-- sessions of consumers have settings of their own; a generic plan would lock the segments of all
-- logs. Locks the stream's logs in ACCESS SHARE mode if there is something to read. Never returns
-- fewer messages than there are without an error.
create or replace function relaybox.read_stream(
    stream_name text, after_stream_position bigint default 0, max_count integer default 1000
)
returns table (
    stream_position bigint, hop text, log_position bigint, message_id uuid, topic text,
    sender text, epoch integer, index bigint, key text, payload text, payload_bytes bytea,
    headers jsonb, clock jsonb, sent_at timestamptz
)
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
set work_mem = '64MB'
as $$
declare
    source relaybox_internal.stream;
    log_ids integer[];
    delivery_run record;
    through bigint;
    run_count bigint;
    found_count bigint := 0;
    binds_topics boolean := (select s.bind_topics from relaybox_internal.store s);
begin
    perform relaybox_internal.require_count(max_count);
    source := relaybox_internal.find_stream(stream_name, after_stream_position);
    if binds_topics then
        perform relaybox_internal.refuse_borrowed_session();
        perform relaybox_internal.require_topics(source.stream_id, null);
    end if;
    if after_stream_position >= source.last_stream_position
        or source.first_kept_stream_position > source.last_stream_position then
        return;
    end if;
    log_ids := relaybox_internal.keep_logs(source.stream_id);
    -- a later statement than the locks: what is kept now stays
    source := relaybox_internal.find_stream(stream_name, after_stream_position);
    after_stream_position := greatest(
        after_stream_position, source.first_kept_stream_position - 1
    );
    if after_stream_position >= source.last_stream_position then
        return;
    end if;
    through := least(source.last_stream_position, after_stream_position + max_count);
    if binds_topics then
        perform relaybox_internal.require_delivered_topics(
            source.stream_id, after_stream_position, through
        );
    end if;
    for delivery_run in
        select r.* from relaybox_internal.list_delivery_runs(
            source.stream_id, after_stream_position, through
        ) r
    loop
        if delivery_run.log_positions is null then
            return query
            select
                m.stream_position, delivery_run.hop, m.log_position, m.message_id, m.topic,
                m.sender, m.epoch, m.index, m.key, m.payload, m.payload_bytes, m.headers,
                m.clock, m.sent_at
            from relaybox_internal.read_position_range(
                delivery_run.log_id, delivery_run.first_stream_position,
                delivery_run.first_position, delivery_run.last_position
            ) m;
        else
            return query
            select
                m.stream_position, delivery_run.hop, m.log_position, m.message_id, m.topic,
                m.sender, m.epoch, m.index, m.key, m.payload, m.payload_bytes, m.headers,
                m.clock, m.sent_at
            from relaybox_internal.read_position_list(
                delivery_run.log_id, delivery_run.first_stream_position,
                delivery_run.log_positions
            ) m;
        end if;
        get diagnostics run_count = row_count;
        found_count := found_count + run_count;
    end loop;
    if found_count < through - after_stream_position then
        perform relaybox_internal.refuse_missing_messages(
            format(
                'stream %s, stream positions %s to %s', stream_name,
                after_stream_position + 1, through
            ),
            log_ids, through - after_stream_position - found_count
        );
    end if;
end
$$;

comment on function relaybox.read_stream(text, bigint, integer) is
'Reads messages of a stream in the order of their stream positions, without a subscription. Changes
nothing.
`stream_name`: the stream, as relaybox.subscriptions has it.
`after_stream_position`: the stream position of the last message that you have; 0 or null: from the
    first kept message.
`max_count`: greatest number of messages.
Returns `stream_position`, and the message with the columns of relaybox.inbox.
Errors: RB012 (messages are missing from a log), RB032 (no such stream), RB034 (no longer kept),
    RB036 (no max_count), RB038 (detached), RB041 (the stream has a topic that the role may not
    read), 40001 (the transaction began before segments were dropped: repeat it).';
