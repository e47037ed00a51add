-- Reads messages before the first stream position that read_stream() reads: of a detached message
-- where its files are, of one that is here the message itself (another log of the stream may keep
-- what alternates with detached messages). Returns nothing from the first kept stream position on.
-- Locks the stream's logs in ACCESS SHARE mode, so that nothing is detached meanwhile. Never
-- returns fewer messages than there are without an error.
create or replace function relaybox.read_detached(
    stream_name text, after_stream_position bigint, max_count integer default 1000
)
returns table (
    stream_position bigint, hop text, log_position bigint, directory text, message_id uuid,
    topic text, sender text, epoch integer, index bigint, key text, payload text,
    payload_bytes bytea, headers jsonb, clock jsonb, sent_at timestamptz
)
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
set work_mem = '64MB'
as $$
#variable_conflict use_column
declare
    source relaybox_internal.stream;
    readable relaybox_internal.stream;
    seen record;
    log_ids integer[];
    delivery_run record;
    through bigint;
    run_count bigint;
    found_count bigint := 0;
begin
    perform relaybox_internal.require_count(max_count);
    source := relaybox_internal.find_stream(stream_name, 0);
    if (select s.bind_topics from relaybox_internal.store s) then
        perform relaybox_internal.refuse_borrowed_session();
        perform relaybox_internal.require_topics(source.stream_id, null);
    end if;
    if after_stream_position >= source.first_kept_stream_position - 1 then
        return;
    end if;
    log_ids := relaybox_internal.keep_logs(source.stream_id);
    -- one statement, later than the locks: the stream and its files are those of one snapshot
    select
        s as stream, d.log_ids, d.firsts, d.lasts, d.directories
    into seen
    from relaybox_internal.stream s
    cross join lateral (
        select
            array_agg(g.log_id) as log_ids, array_agg(g.first) as firsts,
            array_agg(g.last) as lasts, array_agg(g.directory) as directories
        from relaybox_internal.detached_segment g
        join relaybox_internal.stream_log l on l.log_id = g.log_id
        where l.stream_id = s.stream_id and g.state = 'detached'
    ) d
    where s.stream = stream_name;
    source := seen.stream;
    if after_stream_position >= source.first_kept_stream_position - 1 then
        return;
    end if;
    readable := relaybox_internal.kept_or_detached(source);
    perform relaybox_internal.start_at_number(readable, (after_stream_position + 1)::text);
    through := least(
        source.first_kept_stream_position - 1, after_stream_position + max_count
    );
    if (select s.bind_topics from relaybox_internal.store s) then
        -- of the messages that are here: those in files are given to whoever reaches the files
        perform relaybox_internal.require_delivered_topics(
            source.stream_id, after_stream_position, through
        );
    end if;
    for delivery_run in
        select r.* from relaybox_internal.list_delivery_runs(
            source.stream_id, after_stream_position, through
        ) r
    loop
        return query
        select
            m.stream_position, delivery_run.hop, m.log_position, d.directory, l.message_id, l.topic,
            l.sender, l.epoch, l.index, l.key, l.payload, l.payload_bytes, l.headers, l.clock,
            l.sent_at
        from (
            select
                delivery_run.first_stream_position + n.number as stream_position,
                coalesce(
                    delivery_run.log_positions[n.number + 1],
                    delivery_run.first_position + n.number
                ) as log_position
            from generate_series(
                0, coalesce(
                    cardinality(delivery_run.log_positions) - 1,
                    delivery_run.last_position - delivery_run.first_position
                )
            ) n (number)
        ) m
        left join unnest(seen.log_ids, seen.firsts, seen.lasts, seen.directories)
            d (log_id, first, last, directory)
            on d.log_id = delivery_run.log_id and m.log_position between d.first and d.last
        left join relaybox_internal.log l
            on d.directory is null and l.log_id = delivery_run.log_id
            and l.log_position = m.log_position
        where d.directory is not null or l.log_id is not null;
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

comment on function relaybox.read_detached(text, bigint, integer) is
'For the Spark format relaybox: reads messages before the first one that read_stream() reads, or
says where the files of detached ones are. Changes nothing.
`stream_name`: the stream, as relaybox.subscriptions has it.
`after_stream_position`: the stream position of the last message that you have.
`max_count`: greatest number of messages.
Returns rows in any order: `stream_position`, `hop`, `log_position`, and `directory`, in whose files
    the message is. It is null for a message that the store has: then the columns of relaybox.inbox
    have it. No row: read_stream() reads what comes next.
Errors: RB012 (messages are missing from a log), RB032 (no such stream), RB034 (no longer kept),
    RB036 (no max_count), RB041 (the stream has a topic that the role may not read).';
