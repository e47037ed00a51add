-- Who may do what. Applied whole after functions and views, whenever one of these files changed. It
-- takes no right from any other role: a right that a newer version takes back is revoked by its
-- migration. What other owners have in this schema is left alone. Readers see all and change
-- nothing; viewers see all but keys, headers and payloads. Operators may say for whom they act; they need the rights of consumers or the owner
-- besides. Producers write the columns that are theirs; seq and xid are not. Nobody may change or
-- remove a message. Drivers read the outbox and the logs, write logs and ledgers, and alter no
-- table: segments are made and dropped by functions with the owner's rights. Nobody but the owner,
-- drivers, readers and viewers has a right on relaybox_internal: applications reach what schema relaybox has.
revoke all on schema relaybox, relaybox_internal from public;
do $$
declare
    ours text;
begin
    for ours in
        select format('table %s', c.oid::regclass) from pg_class c
        where c.relnamespace in ('relaybox'::regnamespace, 'relaybox_internal'::regnamespace) and exists (select from aclexplode(c.relacl) a where a.grantee = 0)
            and c.relowner = (select n.nspowner from pg_namespace n where n.nspname = 'relaybox')
        union all
        select format('routine %s', p.oid::regprocedure) from pg_proc p
        where p.pronamespace in ('relaybox'::regnamespace, 'relaybox_internal'::regnamespace)
            and exists (select from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a where a.grantee = 0)
            and (p.proname = 'new_message_id' or exists (
                select from relaybox_internal.installed_object o
                where o.kind = 'function' and to_regprocedure(o.identity) = p.oid
            ))
    loop
        execute format('revoke all on %s from public', ours);
    end loop;
end
$$;

grant usage on schema relaybox to relaybox_producer, relaybox_consumer;
grant usage on sequence relaybox.outbox_seq to relaybox_producer;
grant execute on function relaybox.new_message_id() to relaybox_producer;
grant insert (message_id, topic, sender, epoch, index, key, headers, payload, payload_bytes, clock) on relaybox.outbox to relaybox_producer;
grant select (message_id) on relaybox.outbox to relaybox_producer;
grant execute on function relaybox.declare_sender(text, text), relaybox.new_epoch(text, text) to relaybox_producer;
grant execute on function relaybox.sender_epoch(text), relaybox.next_index(text) to relaybox_producer;
grant select on relaybox.sender_role to relaybox_producer;
grant select on relaybox.inbox to relaybox_consumer;
grant execute on function relaybox.read_log(text, bigint, integer) to relaybox_consumer;
grant select on relaybox.subscriptions, relaybox.dead_letters, relaybox.consumer_action, relaybox.replay_ranges to relaybox_consumer;
grant execute on function relaybox.read_stream(text, bigint, integer) to relaybox_consumer;
grant execute on function relaybox.subscribe(text, text, text, integer, text, integer, integer, boolean, integer, integer) to relaybox_consumer;
grant execute on function relaybox.unsubscribe(text, text) to relaybox_consumer;
grant execute on function relaybox.fetch(text, integer, bigint, text, integer, text) to relaybox_consumer;
grant execute on function relaybox.ack(text, bigint, text) to relaybox_consumer;
grant execute on function relaybox.nack(text, bigint, text, text) to relaybox_consumer;
grant execute on function relaybox.lag(text) to relaybox_consumer;
grant execute on function relaybox.my_quota() to relaybox_consumer;
grant execute on function relaybox.replay(text, text, text, text, boolean, integer, boolean) to relaybox_consumer;
grant execute on function relaybox.cancel_replay(text, text) to relaybox_consumer;
grant execute on function relaybox.fetch_one_at_a_time(text, text, bigint) to relaybox_consumer;
grant execute on function relaybox.redrive(text, text, bigint) to relaybox_consumer;
grant execute on function relaybox.drop_dead_letter(bigint, text) to relaybox_consumer;
grant execute on function relaybox.release(text, text) to relaybox_consumer;

grant usage on schema relaybox, relaybox_internal to relaybox_reader;
grant execute on function relaybox.lag(text), relaybox.my_quota(), relaybox.read_log(text, bigint, integer) to relaybox_reader;
grant execute on function relaybox.read_stream(text, bigint, integer) to relaybox_reader;
grant execute on function relaybox.count_replay(text, text, text, integer) to relaybox_reader;
alter default privileges in schema relaybox, relaybox_internal grant select on tables to relaybox_reader; -- segments and logs are made later
do $$
declare
    ours text;
begin
    for ours in
        select format('select on table %s', c.oid::regclass) from pg_class c
        where c.relnamespace in ('relaybox'::regnamespace, 'relaybox_internal'::regnamespace) and c.relkind in ('r', 'p', 'v', 'S')
            and c.relowner = (select n.nspowner from pg_namespace n where n.nspname = 'relaybox')
            and not has_table_privilege('relaybox_reader', c.oid, 'select')
        union all
        -- with the rights of who calls it: it can't do more than a reader may
        select format('execute on routine %s', p.oid::regprocedure) from pg_proc p
        join relaybox_internal.installed_object o on o.kind = 'function' and to_regprocedure(o.identity) = p.oid
        where not p.prosecdef and not has_function_privilege('relaybox_reader', p.oid, 'execute')
    loop
        execute format('grant %s to relaybox_reader', ours);
    end loop;
    -- logins without a grant may be shut out: our roles are not
    if exists (select from pg_database d where d.datname = current_database() and pg_has_role(d.datdba, 'usage')) then
        execute format(
            'grant connect on database %I to relaybox_producer, relaybox_consumer, relaybox_reader, relaybox_viewer, '
            'relaybox_operator, relaybox_driver', current_database()
        );
        -- a decision of a stream is worked out in temporary tables
        execute format('grant temporary on database %I to relaybox_driver', current_database());
    end if;
end
$$;

grant usage on schema relaybox, relaybox_internal to relaybox_driver;
grant select on relaybox.outbox, relaybox.outbox_seq, relaybox.migration, relaybox.sender_role to relaybox_driver;
grant select on relaybox.subscriptions, relaybox.replay_ranges, relaybox.consumer_action to relaybox_driver;
grant insert (subscription, action, reason, detail) on relaybox_internal.consumer_action to relaybox_driver; -- done_by is the login, always
grant select (
    dead_letter_id, state, stream, subscription, lane, stream_position, reason, detail, attempts, first_at, last_at, last_by, resolved_at,
    resolved_by, resolved_reason, hop, log_position, message_id, topic, sender, epoch, index, sent_at
) on relaybox.dead_letters to relaybox_driver;
grant execute on function relaybox.redrive(text, text, bigint), relaybox.drop_dead_letter(bigint, text) to relaybox_driver;
grant execute on function relaybox.replay(text, text, text, text, boolean, integer, boolean) to relaybox_driver;
grant execute on function relaybox.count_replay(text, text, text, integer), relaybox.cancel_replay(text, text) to relaybox_driver;
grant execute on function relaybox.lag(text) to relaybox_driver;
grant execute on function relaybox_internal.ensure_outbox_segments(integer) to relaybox_driver;
grant execute on function relaybox_internal.ensure_log_segments(integer, bigint) to relaybox_driver;
grant execute on function relaybox_internal.drop_oldest_segment(integer, text, bigint, integer) to relaybox_driver;
grant execute on function relaybox_internal.begin_attach(integer, text) to relaybox_driver;
grant execute on function relaybox_internal.finish_attach(integer, bigint, integer, text) to relaybox_driver;
alter default privileges in schema relaybox_internal grant select on tables to relaybox_driver; -- segments are made later
do $$
declare
    ours text;
begin
    for ours in
        select format(
            '%s on table %s',
            case
                when c.relispartition and exists (
                    select from pg_partition_tree('relaybox.outbox') o where o.relid = c.oid
                ) then 'select'
                when c.relname ~ '^log(_|$)' then 'select, insert'
                when c.relkind in ('v', 'S') or c.relname in (
                    'store', 'installed_object', 'consumer_quota', 'consumer_action', 'subscription_role', 'topic_role', 'stream_role'
                ) then 'select'
                else 'select, insert, update, delete'
            end,
            c.oid::regclass
        )
        from pg_class c
        where c.relnamespace = 'relaybox_internal'::regnamespace and c.relkind in ('r', 'p', 'v', 'S')
            and c.relowner = (select n.nspowner from pg_namespace n where n.nspname = 'relaybox')
        union all
        -- with the rights of who calls it: it can't do more than a driver may
        select format('execute on routine %s', p.oid::regprocedure) from pg_proc p
        join relaybox_internal.installed_object o on o.kind = 'function' and to_regprocedure(o.identity) = p.oid
        where p.pronamespace = 'relaybox_internal'::regnamespace and not p.prosecdef
            and not has_function_privilege('relaybox_driver', p.oid, 'execute')
    loop
        execute format('grant %s to relaybox_driver', ours);
    end loop;
end
$$;

-- A column of a partitioned table is asked for at the table that the query names: segments need no
-- grant. relaybox.read_log and read_stream stay with consumers and readers.
grant usage on schema relaybox, relaybox_internal to relaybox_viewer;
grant execute on function relaybox.lag(text), relaybox.my_quota(), relaybox.count_replay(text, text, text, integer) to relaybox_viewer;
grant select on relaybox.migration, relaybox.sender_role, relaybox.consumer_action, relaybox.outbox_seq to relaybox_viewer;
grant select (seq, xid, message_id, index, sent_at, epoch, topic, sender, clock) on relaybox.outbox to relaybox_viewer;
grant select (log_id, epoch, log_position, index, message_id, sent_at, topic, sender, clock) on relaybox_internal.log to relaybox_viewer;
grant select (hop, log_position, message_id, topic, sender, epoch, index, clock, sent_at) on relaybox.inbox to relaybox_viewer;
grant select (
    dead_letter_id, state, stream, subscription, lane, stream_position, reason, detail, attempts, first_at, last_at, last_by, resolved_at,
    resolved_by, resolved_reason, hop, log_position, message_id, topic, sender, epoch, index, sent_at
) on relaybox.dead_letters to relaybox_viewer;
do $$
declare
    ours text;
begin
    for ours in
        select format('select on table %s', c.oid::regclass) from pg_class c
        where c.relnamespace = 'relaybox_internal'::regnamespace and c.relkind in ('r', 'p', 'S') and not c.relispartition
            and c.oid <> 'relaybox_internal.log'::regclass
            and c.relowner = (select n.nspowner from pg_namespace n where n.nspname = 'relaybox')
            and not has_table_privilege('relaybox_viewer', c.oid, 'select')
        union all
        select format('select on table %s', c.oid::regclass) from pg_class c
        join relaybox_internal.installed_object o on o.kind = 'view' and to_regclass(o.identity) = c.oid
        where c.oid not in ('relaybox.inbox'::regclass, 'relaybox.dead_letters'::regclass)
            and not has_table_privilege('relaybox_viewer', c.oid, 'select')
        union all
        -- with the rights of who calls it: it can't do more than a viewer may
        select format('execute on routine %s', p.oid::regprocedure) from pg_proc p
        join relaybox_internal.installed_object o on o.kind = 'function' and to_regprocedure(o.identity) = p.oid
        where not p.prosecdef and not has_function_privilege('relaybox_viewer', p.oid, 'execute')
    loop
        execute format('grant %s to relaybox_viewer', ours);
    end loop;
end
$$;
