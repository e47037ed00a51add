-- post: names that the previous version uses are gone
-- One word per thing: the names of tables, columns, indexes, sequences, functions and views, in place. No row of a table is rewritten.
-- What depends on a renamed object (a view of yours, a grant, an index) goes on with it: Postgres follows objects, not names.
-- Statements that were written with an old name end with undefined_column or undefined_function: docs/operations.md lists the names.
set local lock_timeout = '5s';

-- Views, and tables with their partitions. A store that has no view yet gets it with the new names.
do $$
declare
    one record;
begin
    for one in
        select w.relation, w.old, w.new
        from (values
            ('cursor', 'done_place', 'done_stream_position'),
            ('cursor', 'fetched_place', 'fetched_stream_position'),
            ('cursor', 'redrive_place', 'redrive_stream_position'),
            ('cursor', 'suspect_place', 'suspect_stream_position'),
            ('cursor', 'replay_place', 'replay_stream_position'),
            ('subscription', 'first_place', 'first_stream_position'),
            ('subscription', 'through_place', 'through_stream_position'),
            ('stream', 'taken', 'arrival_seq'),
            ('stream', 'last_place', 'last_stream_position'),
            ('stream', 'first_kept_place', 'first_kept_stream_position'),
            ('stream', 'dropped_place', 'dropped_stream_position'),
            ('detached_segment', 'hop_id', 'log_id'),
            ('detached_segment', 'for_whom', 'needed_by'),
            ('stream_log', 'hop_id', 'log_id'),
            ('stream_log', 'compacted_place', 'compacted_stream_position'),
            ('decision', 'hop_id', 'log_id'),
            ('decision', 'first_taken', 'first_arrival_seq'),
            ('decision', 'last_place', 'last_stream_position'),
            ('arrival', 'hop_id', 'log_id'),
            ('hop_in', 'hop_id', 'log_id'),
            ('hop_out', 'position', 'log_position'),
            ('dead_letter', 'hop_id', 'log_id'),
            ('dead_letter', 'position', 'log_position'),
            ('dead_letter', 'place', 'stream_position'),
            ('dead_letter', 'settled_at', 'resolved_at'),
            ('dead_letter', 'settled_by', 'resolved_by'),
            ('dead_letter', 'settled_reason', 'resolved_reason'),
            ('log', 'hop_id', 'log_id'),
            ('log', 'position', 'log_position'),
            ('delivery', 'first_place', 'first_stream_position'),
            ('delivery', 'last_place', 'last_stream_position'),
            ('delivery', 'hop_id', 'log_id'),
            ('delivery', 'positions', 'log_positions'),
            ('failed_attempt', 'place', 'stream_position'),
            ('ghost', 'position', 'log_position'),
            ('held', 'hop_id', 'log_id'),
            ('held', 'position', 'log_position'),
            ('held', 'taken', 'arrival_seq'),
            ('late_delivery', 'after_place', 'after_stream_position'),
            ('receipt', 'hop_id', 'log_id'),
            ('replay_range', 'first_place', 'first_stream_position'),
            ('replay_range', 'last_place', 'last_stream_position'),
            ('dead_letters', 'letter', 'dead_letter_id'),
            ('dead_letters', 'place', 'stream_position'),
            ('dead_letters', 'settled_at', 'resolved_at'),
            ('dead_letters', 'settled_by', 'resolved_by'),
            ('dead_letters', 'settled_reason', 'resolved_reason'),
            ('dead_letters', 'position', 'log_position'),
            ('inbox', 'position', 'log_position'),
            ('lane_cursors', 'done_place', 'done_stream_position'),
            ('lane_cursors', 'fetched_place', 'fetched_stream_position'),
            ('lane_cursors', 'redrive_place', 'redrive_stream_position'),
            ('lane_cursors', 'suspect_place', 'suspect_stream_position'),
            ('lane_cursors', 'replay_place', 'replay_stream_position'),
            ('replay_ranges', 'first_place', 'first_stream_position'),
            ('replay_ranges', 'last_place', 'last_stream_position'),
            ('subscriptions', 'first_place', 'first_stream_position'),
            ('subscriptions', 'through_place', 'through_stream_position'),
            ('subscriptions', 'done_place', 'done_stream_position'),
            ('subscriptions', 'lane_places', 'lane_stream_positions'),
            ('subscriptions', 'last_place', 'last_stream_position'),
            ('subscriptions', 'places_behind', 'stream_positions_behind'),
            ('subscriptions', 'detached_places', 'detached_stream_positions'),
            ('subscriptions', 'place', 'stream_position'),
            ('subscriptions', 'dead_letter_places', 'dead_letter_stream_positions')
        ) w (relation, old, new)
        join pg_class c on c.relnamespace = 'relaybox'::regnamespace and c.relname = w.relation
        join pg_attribute a on a.attrelid = c.oid and a.attname = w.old and not a.attisdropped
    loop
        execute format('alter table relaybox.%I rename column %I to %I', one.relation, one.old, one.new);
        -- from version 18 of Postgres on NOT NULL has a name
        if exists (
            select from pg_constraint k
            where k.conrelid = format('relaybox.%I', one.relation)::regclass and k.contype = 'n'
                and k.conname = format('%s_%s_not_null', one.relation, one.old)
        ) then
            execute format(
                'alter table relaybox.%I rename constraint %I to %I',
                one.relation, format('%s_%s_not_null', one.relation, one.old), format('%s_%s_not_null', one.relation, one.new)
            );
        end if;
    end loop;
end
$$;

do $$
declare
    one record;
begin
    for one in
        select w.relation, w.old, w.new
        from (values
            ('stream', 'dropped_place_is_not_kept', 'dropped_stream_position_is_not_kept'),
            ('stream', 'first_kept_place_positive', 'first_kept_stream_position_positive'),
            ('dead_letter', 'dead_letter_hop_id_fkey', 'dead_letter_log_id_fkey'),
            ('decision', 'decision_hop_id_fkey', 'decision_log_id_fkey'),
            ('detached_segment', 'detached_segment_hop_id_fkey', 'detached_segment_log_id_fkey'),
            ('held', 'held_hop_id_fkey', 'held_log_id_fkey'),
            ('stream_log', 'stream_log_hop_id_fkey', 'stream_log_log_id_fkey')
        ) w (relation, old, new)
    loop
        execute format('alter table relaybox.%I rename constraint %I to %I', one.relation, one.old, one.new);
    end loop;
    for one in
        select w.old, w.new
        from (values
            ('dead_letter_unsettled', 'dead_letter_unresolved'),
            ('decision_last_place', 'decision_last_stream_position'),
            ('hop_in_hop_id_seq', 'hop_in_log_id_seq')
        ) w (old, new)
    loop
        execute format('alter table relaybox.%I rename to %I', one.old, one.new);
    end loop;
end
$$;

-- A store that has no record of its functions and views was made by an early version. What that made is known by name and owner.
insert into relaybox.installed_object (identity, kind, name, digest)
select (pg_identify_object('pg_proc'::regclass, p.oid, 0)).identity as identity, 'function' as kind, p.proname as name, 'unknown' as digest
from pg_proc p
join pg_namespace n on n.oid = p.pronamespace and n.nspname = 'relaybox' and n.nspowner = p.proowner
where
    p.proname = any(array[
        'accept_slice', 'ack', 'acknowledged', 'add_topics', 'adopted_content', 'append_run', 'ask_replay', 'attempts_at',
        'batch_slices', 'begin_attach', 'begin_attempt', 'begin_detach', 'begin_generation', 'bind_sender', 'bind_senders',
        'cancel_replay', 'check_stream', 'clock_entries', 'clock_is_valid', 'cluster_fingerprint', 'compact_hop_ledgers',
        'compact_log_ledgers', 'confirm_processed', 'confirm_received', 'confirm_settled', 'confirmation_of', 'confirmations_after',
        'count_quarters', 'count_senders', 'cursor_at', 'declare_sender', 'deliver_held', 'deliver_next', 'detachable_segments',
        'doubled_messages', 'drop_dead_letter', 'drop_oldest_segment', 'durable_arrival', 'end_older_attempts', 'end_resending',
        'ensure_log_segments', 'ensure_outbox_segments', 'estimate_range', 'every_transaction', 'fence_lanes', 'fetch',
        'fetched_again', 'find_originals', 'find_repeated_ids', 'finish_attach', 'first_kept_read', 'first_position_after',
        'has_sender_to_take_up', 'held_senders', 'hold_back', 'holders', 'holds_unknown_causes', 'hop_has_work', 'hop_is_driven',
        'hops_fingerprint', 'index_to_wait_for', 'is_fetched', 'is_skipped', 'judge_batch', 'judge_batch_senders', 'judge_clocks',
        'judge_duplicates', 'judge_rows', 'lag', 'lane_of', 'lanes_for', 'last_place_through', 'lock_hop', 'lock_lane',
        'log_digest', 'log_holders', 'log_kept_from', 'make_delivery_tables', 'make_published_sender', 'message_at', 'message_hash',
        'move_cursor', 'nack', 'new_epoch', 'newest_confirmation', 'next_fetch', 'next_index', 'open_lanes', 'open_replay',
        'outbox_buckets', 'outbox_buckets_after', 'outbox_covered', 'outbox_holders', 'outbox_waiting', 'place_messages',
        'places_between', 'processed_reading', 'publish_batch', 'rank_by_clocks', 'read_dense_slice', 'read_log', 'read_log_slice',
        'read_outbox_slice', 'read_stream', 'receiving_state', 'record_action', 'record_attempt', 'record_batch',
        'record_downstream', 'redrive', 'refuse_detached', 'refuse_letter_of_stream', 'refuse_other_plan', 'refuse_retired_hop',
        'register_hop_in', 'register_hop_out', 'register_stream', 'register_topics', 'release', 'release_detached',
        'remember_indexes', 'remember_senders', 'replay', 'replay_progress', 'replayed_through', 'require_fetched',
        'require_reason', 'require_sender_kind', 'require_sender_role', 'require_writable_primary', 'resolved_position',
        'restore_cursor', 'retire_hop', 'scan_lane', 'segments', 'sender_epoch', 'sender_gap', 'senders_since', 'sending_state',
        'set_aside', 'set_aside_circles', 'set_aside_judged', 'set_aside_places', 'settle_senders', 'settled_reading', 'signals',
        'skip_empty_pair', 'skip_gap', 'slice_content', 'slice_digest', 'slice_digests', 'slice_state', 'start_place',
        'stream_digests', 'stream_has_work', 'stream_places', 'stream_state', 'subscribe', 'subscription_named', 'succession',
        'take_lane', 'take_up_stalled', 'topics_wanted', 'trace_arrival', 'trace_delivery', 'trace_reading', 'trace_sent',
        'unbatched_messages', 'unbind_sender', 'undelivered_buckets', 'undelivered_messages', 'unmet_causes', 'unrouted_seq',
        'unrouted_topics', 'unsubscribe', 'waits_at_once', 'worker_name'
    ])
    and not exists (select from relaybox.installed_object)
union all
select (pg_identify_object('pg_class'::regclass, c.oid, 0)).identity as identity, 'view' as kind, c.relname as name, 'unknown' as digest
from pg_class c
join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'relaybox' and n.nspowner = c.relowner
where
    c.relkind = 'v' and c.relname = any(array['dead_letters', 'inbox', 'lane_cursors', 'subscriptions'])
    and not exists (select from relaybox.installed_object);

-- Functions that an earlier init made keep their grants under the new name; init replaces what is in them.
do $$
declare
    one record;
begin
    for one in
        select o.identity, w.old, w.new, p.oid
        from (values
            ('acknowledged', 'apply_ack'),
            ('cursor_at', 'reset_cursor'),
            ('every_transaction', 'full_snapshot'),
            ('fetched_again', 'refetch'),
            ('find_place_gaps', 'find_stream_position_gaps'),
            ('has_sender_to_take_up', 'has_sender_to_resume'),
            ('hold_back', 'dead_letter_followers'),
            ('index_to_wait_for', 'index_to_resolve'),
            ('judge_batch', 'classify_batch'),
            ('judge_batch_senders', 'classify_batch_senders'),
            ('judge_clocks', 'classify_clocks'),
            ('judge_duplicates', 'classify_duplicates'),
            ('judge_rows', 'classify_rows'),
            ('last_place_through', 'last_stream_position_through'),
            ('letters_changed', 'update_dead_letter_lanes'),
            ('next_fetch', 'choose_next'),
            ('place_messages', 'append_deliverable'),
            ('places_between', 'stream_positions_between'),
            ('refuse_letter', 'refuse_dead_letter'),
            ('refuse_letter_of_stream', 'refuse_dead_letter_of_stream'),
            ('set_aside_circles', 'set_aside_cycles'),
            ('set_aside_judged', 'set_aside_classified'),
            ('set_aside_places', 'set_aside_stream_positions'),
            ('settle_senders', 'update_sender_states'),
            ('signals', 'store_metrics'),
            ('start_place', 'start_stream_position'),
            ('stream_places', 'list_stream_positions'),
            ('succession', 'ledger_continuity'),
            ('take_up_stalled', 'resume_stalled_senders')
        ) w (old, new)
        join relaybox.installed_object o on o.kind = 'function' and o.name = w.old
        join pg_proc p on p.oid = to_regprocedure(o.identity)
    loop
        execute format('alter function %s rename to %I', one.identity, one.new);
        update relaybox.installed_object
        set name = one.new, identity = (pg_identify_object('pg_proc'::regclass, one.oid, 0)).identity
        where identity = one.identity;
    end loop;
end
$$;

-- What people did with subscriptions is written down by name.
do $$
declare
    one record;
begin
    for one in
        select w.old, w.new
        from (values
            ('letter', 'dead_letter_id'),
            ('place', 'stream_position'),
            ('place_count', 'entry_count'),
            ('first_place', 'first_stream_position'),
            ('last_place', 'last_stream_position'),
            ('through_place', 'through_stream_position'),
            ('done_place', 'done_stream_position'),
            ('done_places', 'done_stream_positions')
        ) w (old, new)
    loop
        update relaybox.consumer_action a
        set detail = (a.detail - one.old) || jsonb_build_object(one.new, a.detail -> one.old)
        where a.detail ? one.old;
    end loop;
end
$$;
