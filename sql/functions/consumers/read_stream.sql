-- What consumers of a stream read: the messages after a place, in the order of their places. Reads only, asks for no subscription.
-- Runs with its owner's rights. Plans are fixed here, since consumers' sessions have the settings that they have; a generic one would
-- lock the segments of all logs. After 0 or null: from the first kept.
-- Never fewer messages than there are, in silence. Locks the stream's logs in ACCESS SHARE mode if there is something to read. Raises
-- RB032 for an unknown stream, RB034 for a place that is no longer kept, RB036 for no max_count, RB038 for a place that is detached,
-- 40001 if the snapshot is older than a drop, RB012 if a message is missing.
create or replace function relaybox.read_stream(stream_name text, after_place bigint default 0, max_count integer default 1000)
returns table (
    place bigint, hop text, "position" bigint, message_id uuid, topic text, sender text, epoch integer, index bigint,
    key text, payload text, payload_bytes bytea, headers jsonb, clock jsonb, sent_at timestamptz
)
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
set work_mem = '64MB'
as $$
declare
    source relaybox.stream;
    log_ids integer[];
    log_id integer;
    run record;
    through bigint;
    run_count bigint;
    found_count bigint := 0;
begin
    perform relaybox.require_count(max_count);
    source := relaybox.find_stream(stream_name, after_place);
    if after_place >= source.last_place or source.first_kept_place > source.last_place then
        return;
    end if;
    log_ids := array(select l.hop_id from relaybox.stream_log l where l.stream_id = source.stream_id order by l.hop_id);
    foreach log_id in array log_ids loop
        perform relaybox.keep_segments(log_id);
    end loop;
    -- a later statement than the locks: what is kept now stays
    source := relaybox.find_stream(stream_name, after_place);
    after_place := greatest(after_place, source.first_kept_place - 1);
    if after_place >= source.last_place then
        return;
    end if;
    through := least(source.last_place, after_place + max_count);
    for run in select r.* from relaybox.list_delivery_runs(source.stream_id, after_place, through) r loop
        if run.positions is null then
            return query
            select
                m.place, run.hop, m.position, m.message_id, m.topic, m.sender, m.epoch, m.index, m.key, m.payload, m.payload_bytes, m.headers,
                m.clock, m.sent_at
            from relaybox.read_position_range(run.hop_id, run.first_place, run.first_position, run.last_position) m;
        else
            return query
            select
                m.place, run.hop, m.position, m.message_id, m.topic, m.sender, m.epoch, m.index, m.key, m.payload, m.payload_bytes, m.headers,
                m.clock, m.sent_at
            from relaybox.read_position_list(run.hop_id, run.first_place, run.positions) m;
        end if;
        get diagnostics run_count = row_count;
        found_count := found_count + run_count;
    end loop;
    if found_count < through - after_place then
        perform relaybox.refuse_missing_messages(
            format('stream %s, places %s to %s', stream_name, after_place + 1, through), log_ids, through - after_place - found_count
        );
    end if;
end
$$;

comment on function relaybox.read_stream(text, bigint, integer) is
'Reads messages of a stream in the order of their places, without a subscription. Changes nothing.
`stream_name`: the stream, as relaybox.subscriptions has it.
`after_place`: the place of the last message that you have; 0 or null: from the first kept message.
`max_count`: greatest number of messages.
Returns `place`, and the message with the columns of relaybox.inbox.
Errors: RB012 (messages are missing from a log), RB032 (no such stream), RB034 (no longer kept), RB036 (no max_count), RB038 (detached),
40001 (the transaction began before segments were dropped: repeat it).';
