-- Refuses to go on where a crash of the server would empty a table: an unlogged ledger, or an
-- unlogged segment that holds one of these positions of a log (null: no log is asked about). Looks
-- into the catalog only, by name. Raises RB003, with the statements that make the tables logged.
create or replace function relaybox_internal.refuse_unlogged(
    log_id_ integer default null, first_position bigint default null,
    last_position bigint default null
)
returns void
language plpgsql volatile
as $$
declare
    ledgers constant text[] := array[
        'adopted_row', 'adopted_row_row_number_seq', 'adopted_table', 'adopted_table_adoption_id_seq',
        'arrival', 'attempt', 'attestation', 'backlog', 'backlog_backlog_id_seq', 'batch',
        'check_function', 'checked_topic', 'confirmation', 'consumer_action', 'consumer_action_action_id_seq', 'consumer_quota',
        'cursor', 'dead_letter', 'dead_letter_dead_letter_id_seq', 'decision', 'delivery',
        'derivation', 'derivation_attempt', 'derivation_derivation_id_seq', 'derivation_trial',
        'derivation_trial_attempt', 'derivation_trial_message', 'derivation_trial_message_seq_seq',
        'derivation_trial_trial_id_seq', 'detached_payload', 'detached_segment',
        'dropped_segment', 'endpoint_failure', 'failed_attempt', 'frame_partition', 'generation', 'ghost', 'held',
        'hop_check', 'hop_in', 'hop_in_log_id_seq', 'hop_out', 'index_range', 'installed_object', 'lane',
        'late_delivery', 'migration', 'nonconforming_message', 'numbering', 'outbox_overflow', 'outbox_seq', 'payload_collection', 'put', 'receipt',
        'replay_range', 'replay_range_replay_range_id_seq', 'sealed_segment', 'seen', 'sender', 'sender_counter',
        'sender_role', 'sender_state', 'sender_state_sender_id_seq', 'skip', 'skip_skip_id_seq',
        'store', 'stream', 'stream_log', 'stream_role', 'stream_stream_id_seq', 'stream_topic',
        'subscription', 'subscription_role', 'subscription_subscription_id_seq', 'topic_request',
        'topic_role', 'unmapped_row', 'unmapped_row_unmapped_id_seq'
    ];
    size bigint := (select s.segment_rows from relaybox_internal.store s);
    found record;
begin
    select
        string_agg(c.oid::regclass::text, ', ' order by c.relname) as names,
        string_agg(
            format(
                'alter %s %s set logged',
                case c.relkind when 'S' then 'sequence' else 'table' end, c.oid::regclass
            ),
            '; ' order by c.relname
        ) as statements
    into found
    from (
        select p.oid, p.relname, p.relkind
        from pg_class p
        where
            p.relname = any(ledgers || array(
                select relaybox_internal.segment_name(format('log_%s', log_id_), n.number)
                from generate_series(first_position / size, last_position / size) n (number)
            ))
            and p.relnamespace in ('relaybox'::regnamespace, 'relaybox_internal'::regnamespace)
            and p.relpersistence = 'u'
        union all
        -- a partition that somebody put elsewhere, whatever its bounds are
        select p.oid, p.relname, p.relkind
        from pg_inherits i
        join pg_class p on p.oid = i.inhrelid
        where
            i.inhparent = to_regclass(format('relaybox_internal.log_%s', log_id_))
            and p.relnamespace <> 'relaybox_internal'::regnamespace
            and p.relpersistence = 'u'
    ) c;
    if found.names is not null then
        raise exception using errcode = 'RB003',
            message = format(
                'a crash of the server would empty tables of Relaybox, because they are unlogged: %s',
                found.names
            ),
            hint = format('As the owner of the schema: %s.', found.statements);
    end if;
end
$$;
