-- post: What only the library uses moves to relaybox_internal: its functions, views and tables, and every segment. Applications reach what
-- schema relaybox keeps. Data, indexes, rights and whatever depends on these objects go along. Who was granted a right on one of them may
-- still use it, by its new name.
do $$
begin
    -- a superuser may have made it: `if not exists` asks for CREATE on the database all the same
    if to_regnamespace('relaybox_internal') is null then
        execute format(
            'create schema relaybox_internal authorization %s',
            (select n.nspowner::regrole from pg_namespace n where n.nspname = 'relaybox')
        );
    end if;
end
$$;
do $$
declare
    public_names constant text[] := array[
        'ack', 'cancel_replay', 'consumer_action', 'count_replay', 'dead_letters', 'declare_sender', 'drop_dead_letter', 'fetch',
        'fetch_one_at_a_time', 'inbox', 'lag', 'migration', 'my_quota', 'nack', 'new_epoch', 'new_message_id', 'next_index', 'outbox',
        'outbox_seq', 'read_log', 'read_stream', 'redrive', 'release', 'replay', 'replay_ranges', 'sender_epoch', 'sender_role',
        'set_consumer_quota', 'subscribe', 'subscriptions', 'unsubscribe'
    ];
    our_tables constant text[] := array[
        'arrival', 'attempt', 'attestation', 'backlog', 'batch', 'confirmation', 'consumer_quota', 'cursor', 'dead_letter', 'decision',
        'delivery', 'detached_segment', 'dropped_segment', 'failed_attempt', 'generation', 'ghost', 'held', 'hop_in', 'hop_out', 'index_range',
        'installed_object', 'lane', 'late_delivery', 'log', 'numbering', 'outbox_overflow', 'receipt', 'replay_range', 'seen', 'sender',
        'sender_counter', 'sender_state', 'skip', 'store', 'stream', 'stream_log', 'stream_topic', 'subscription', 'topic_request'
    ];
    owner constant oid := (select n.nspowner from pg_namespace n where n.nspname = 'relaybox');
    ours record;
    identities text[] := '{}';
    objects oid[] := '{}';
    are_views boolean[] := '{}';
begin
    for ours in
        select o.identity, o.kind, case o.kind when 'view' then to_regclass(o.identity)::oid else to_regprocedure(o.identity)::oid end as object
        from relaybox.installed_object o
    loop
        if ours.object is not null then
            identities := identities || ours.identity;
            objects := objects || ours.object;
            are_views := are_views || (ours.kind = 'view');
        end if;
    end loop;
    for ours in
        select format('routine %s', p.oid::regprocedure) as what from pg_proc p
        where p.oid = any(objects) and p.pronamespace = 'relaybox'::regnamespace and p.proname <> all(public_names)
        union all
        select format('%s %s', case c.relkind when 'v' then 'view' else 'table' end, c.oid::regclass) from pg_class c
        where c.relnamespace = 'relaybox'::regnamespace
            and (
                c.oid = any(objects) and c.relkind = 'v' and c.relname <> all(public_names)
                or c.relkind in ('r', 'p') and c.relowner = owner and (
                    c.relname = any(our_tables) or c.relname ~ '^log_[0-9]+_s[0-9]+_attempt_'
                    or c.oid in (select t.relid from pg_partition_tree('relaybox.outbox') t where t.level > 0)
                    or c.oid in (select t.relid from pg_partition_tree('relaybox.log') t)
                )
            )
    loop
        execute format('alter %s set schema relaybox_internal', ours.what);
    end loop;
    for k in 1..cardinality(objects) loop
        update relaybox_internal.installed_object o
        set identity = (pg_identify_object(case when are_views[k] then 'pg_class'::regclass else 'pg_proc'::regclass end, objects[k], 0)).identity
        where o.identity = identities[k];
    end loop;
    for ours in
        select distinct a.grantee::regrole as name
        from (
            select p.proacl as acl from pg_proc p where p.pronamespace = 'relaybox_internal'::regnamespace
            union all
            select c.relacl from pg_class c where c.relnamespace = 'relaybox_internal'::regnamespace
            union all
            select t.attacl from pg_attribute t join pg_class c on c.oid = t.attrelid where c.relnamespace = 'relaybox_internal'::regnamespace
        ) r
        cross join aclexplode(r.acl) a
        where a.grantee not in (0, owner) and a.grantee::regrole::text not in ('relaybox_producer', 'relaybox_consumer', 'relaybox_operator')
    loop
        execute format('grant usage on schema relaybox_internal to %s', ours.name);
    end loop;
end
$$;
