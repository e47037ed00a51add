-- The rights that the roles of Relaybox have in this store, each with the object as the catalog
-- numbers it: the one list of who may do what. grants.sql grants what is missing of it, `relaybox
-- doctor` names it. Every table, view and function of Relaybox is in it by name or by the record of
-- init, so that a table of others in these schemas, a table that is being attached and what an
-- attach left behind are granted to no role. Readers see all and change nothing; viewers see all but keys, headers and payloads. Operators may
-- say for whom they act; they need the rights of consumers besides. Producers write the columns
-- that are theirs; seq and xid are not; they read back seq, message_id and sent_at. Nobody may change or remove a message. Drivers read the
-- outbox and the logs, write logs and ledgers, and alter no table. Besides the owner only drivers,
-- readers and viewers have a right on relaybox_internal.
-- kind: relation, function, schema, database, default (select on tables that are made later).
create or replace function relaybox_internal.list_role_rights()
returns table (kind text, object oid, column_name name, privilege text, grantee name)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
with our_table (table_schema, table_name, driver_may) as (
    select 'relaybox_internal', t.name, array['SELECT', 'INSERT', 'UPDATE', 'DELETE']
    from unnest(array[
        'arrival', 'attempt', 'attestation', 'backlog', 'batch', 'confirmation', 'cursor',
        'dead_letter', 'decision', 'delivery', 'derivation', 'derivation_attempt',
        'derivation_trial', 'derivation_trial_attempt', 'derivation_trial_message', 'detached_payload', 'detached_segment', 'dropped_segment', 'failed_attempt', 'generation', 'ghost', 'held',
        'hop_in', 'hop_out', 'index_range', 'lane', 'late_delivery', 'nonconforming_message', 'numbering', 'payload_collection', 'receipt',
        'replay_range', 'seen', 'sender', 'sender_counter', 'sender_state', 'skip', 'stream',
        'stream_log', 'stream_topic', 'subscription', 'topic_request'
    ]) t (name)
    union all
    select 'relaybox_internal', t.name, array['SELECT']
    from unnest(array[
        'adopted_row', 'adopted_table', 'check_function', 'checked_topic', 'consumer_action', 'consumer_quota', 'endpoint_failure',
        'frame_partition', 'hop_check', 'installed_object', 'put', 'sealed_segment', 'store', 'stream_role',
        'subscription_role', 'topic_role', 'unmapped_row'
    ]) t (name)
    union all
    select 'relaybox_internal', 'log', array['SELECT', 'INSERT']
    union all
    select 'relaybox', t.name, array['SELECT']
    from unnest(array['migration', 'outbox', 'sender_role']) t (name)
),

tables as (
    select c.oid, o.table_schema, o.table_name, o.driver_may
    from our_table o
    join pg_namespace n on n.nspname = o.table_schema
    join pg_class c on c.relnamespace = n.oid and c.relname = o.table_name
    where c.relkind in ('r', 'p')
),

logs as (
    select l.inhrelid as oid
    from tables t
    join pg_inherits l on l.inhparent = t.oid
    where t.table_name = 'log'
),

segments as (
    select s.inhrelid as oid
    from logs l
    join pg_inherits s on s.inhparent = l.oid
    union all
    select s.inhrelid
    from tables t
    join pg_inherits s on s.inhparent = t.oid
    where t.table_name = 'outbox'
),

sequences as (
    select c.oid, n.nspname
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace and n.nspname in ('relaybox', 'relaybox_internal')
    left join pg_depend d
        on d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'i'
        and d.refclassid = 'pg_class'::regclass
    where
        c.relkind = 'S'
        and (d.refobjid in (select t.oid from tables t) or c.relname = 'outbox_seq')
),

views as (
    select c.oid, o.name, n.nspname
    from relaybox_internal.installed_object o
    join pg_class c on c.oid = to_regclass(o.identity) and c.relkind = 'v'
    join pg_namespace n on n.oid = c.relnamespace
    where o.kind = 'view'
),

functions as (
    select p.oid, o.name, p.prosecdef, n.nspname
    from relaybox_internal.installed_object o
    join pg_proc p on p.oid = to_regprocedure(o.identity)
    join pg_namespace n on n.oid = p.pronamespace
    where o.kind = 'function'
    union all
    select p.oid, 'new_message_id', p.prosecdef, n.nspname
    from pg_proc p
    join pg_namespace n on n.oid = p.pronamespace
    where n.nspname = 'relaybox' and p.proname = 'new_message_id' and p.pronargs = 0
),

function_rights (grantee, names) as (
    values
    ('relaybox_producer', array[
        'accepts_message', 'complete_write', 'declare_sender', 'new_epoch', 'new_message_id',
        'next_index', 'next_indexes', 'record_partition', 'record_put', 'sender_epoch'
    ]),
    ('relaybox_consumer', array[
        'ack', 'ack_query', 'begin_query', 'cancel_replay', 'change_delayed',
        'clear_endpoint_failure',
        'detached_files', 'drop_dead_letter', 'endpoint_failure', 'extend_lease', 'fetch',
        'fetch_one_at_a_time', 'lag', 'listen', 'my_quota', 'nack', 'read_detached', 'read_log',
        'read_stream', 'record_endpoint_failure', 'redrive', 'release', 'replay', 'rest_seconds',
        'stream_range',
        'stream_range_with_files', 'subscribe', 'unsubscribe'
    ]),
    ('relaybox_reader', array[
        'count_replay', 'detached_files', 'lag', 'my_quota', 'read_detached', 'read_log',
        'read_stream', 'stream_range', 'stream_range_with_files', 'trace_cause', 'trace_derived'
    ]),
    ('relaybox_viewer', array['count_replay', 'lag', 'my_quota', 'trace_cause', 'trace_derived']),
    ('relaybox_driver', array[
        'cancel_replay', 'count_replay', 'drop_dead_letter', 'lag', 'redrive', 'replay',
        'begin_attach', 'drop_oldest_segment', 'ensure_log_segments', 'ensure_outbox_segments',
        'finish_attach', 'seal_outbox_segments', 'trace_cause', 'trace_derived'
    ])
),

relation_rights (grantee, privilege, table_schema, table_name) as (
    values
    ('relaybox_producer', 'USAGE', 'relaybox', 'outbox_seq'),
    ('relaybox_producer', 'SELECT', 'relaybox', 'sender_role'),
    ('relaybox_consumer', 'SELECT', 'relaybox', 'inbox'),
    ('relaybox_consumer', 'SELECT', 'relaybox', 'subscriptions'),
    ('relaybox_consumer', 'SELECT', 'relaybox', 'dead_letters'),
    ('relaybox_consumer', 'SELECT', 'relaybox', 'consumer_action'),
    ('relaybox_consumer', 'SELECT', 'relaybox', 'replay_ranges'),
    ('relaybox_driver', 'SELECT', 'relaybox', 'subscriptions'),
    ('relaybox_driver', 'SELECT', 'relaybox', 'replay_ranges'),
    ('relaybox_driver', 'SELECT', 'relaybox', 'consumer_action')
),

column_rights (grantee, privilege, table_schema, table_name, names) as (
    values
    ('relaybox_producer', 'INSERT', 'relaybox', 'outbox', array[
        'message_id', 'topic', 'sender', 'epoch', 'index', 'key', 'headers', 'payload',
        'payload_bytes', 'clock'
    ]),
    -- an object-relational mapper reads back what the store gave: of any row, so nothing that says
    -- what a message is. A message_id has the time already, and the number of rows can be counted
    ('relaybox_producer', 'SELECT', 'relaybox', 'outbox', array['seq', 'message_id', 'sent_at']),
    -- done_by is the login, always
    ('relaybox_driver', 'INSERT', 'relaybox_internal', 'consumer_action', array[
        'subscription_id', 'subscription', 'action', 'reason', 'detail'
    ]),
    -- a column of a partitioned table is asked for at the table that the query names
    ('relaybox_viewer', 'SELECT', 'relaybox', 'outbox', array[
        'seq', 'xid', 'message_id', 'index', 'sent_at', 'epoch', 'topic', 'sender', 'clock'
    ]),
    ('relaybox_viewer', 'SELECT', 'relaybox_internal', 'sent_rows', array[
        'seq', 'xid', 'message_id', 'index', 'sent_at', 'epoch', 'topic', 'sender', 'clock'
    ]),
    ('relaybox_viewer', 'SELECT', 'relaybox_internal', 'log', array[
        'log_id', 'epoch', 'log_position', 'index', 'message_id', 'sent_at', 'topic', 'sender',
        'clock'
    ]),
    ('relaybox_viewer', 'SELECT', 'relaybox_internal', 'adopted_row', array['adoption_id', 'row_number']),
    ('relaybox_viewer', 'SELECT', 'relaybox_internal', 'unmapped_row', array[
        'unmapped_id', 'adoption_id', 'problem', 'set_aside_at'
    ]),
    ('relaybox_viewer', 'SELECT', 'relaybox', 'inbox', array[
        'hop', 'log_position', 'message_id', 'topic', 'sender', 'epoch', 'index', 'clock', 'sent_at'
    ]),
    ('relaybox_viewer relaybox_driver', 'SELECT', 'relaybox', 'dead_letters', array[
        'dead_letter_id', 'state', 'stream', 'subscription', 'lane', 'stream_position', 'reason',
        'detail', 'attempts', 'first_at', 'last_at', 'last_by', 'resolved_at', 'resolved_by',
        'resolved_reason', 'hop', 'log_position', 'message_id', 'topic', 'sender', 'epoch', 'index',
        'sent_at'
    ])
)

select 'schema', n.oid, null::name, 'USAGE', r.grantee::name
from (
    values
    ('relaybox', array[
        'relaybox_producer', 'relaybox_consumer', 'relaybox_reader', 'relaybox_viewer',
        'relaybox_driver'
    ]),
    ('relaybox_internal', array['relaybox_reader', 'relaybox_viewer', 'relaybox_driver'])
) s (name, grantees)
join pg_namespace n on n.nspname = s.name
cross join unnest(s.grantees) r (grantee)
union all
-- logins without a grant may be shut out: our roles are not. A decision of a stream is worked out
-- in temporary tables, and a partition of a DataFrame comes in one
select 'database', d.oid, null, r.privilege, r.grantee::name
from pg_database d
cross join (
    values
    ('CONNECT', 'relaybox_producer'), ('CONNECT', 'relaybox_consumer'),
    ('CONNECT', 'relaybox_reader'), ('CONNECT', 'relaybox_viewer'),
    ('CONNECT', 'relaybox_operator'), ('CONNECT', 'relaybox_driver'),
    ('TEMPORARY', 'relaybox_driver'), ('TEMPORARY', 'relaybox_producer')
) r (privilege, grantee)
where d.datname = current_database()
union all
select 'default', n.oid, null, 'SELECT', r.grantee::name -- segments and logs are made later
from (
    values
    ('relaybox', 'relaybox_reader'), ('relaybox_internal', 'relaybox_reader'),
    ('relaybox_internal', 'relaybox_driver')
) r (name, grantee)
join pg_namespace n on n.nspname = r.name
union all
select 'relation', o.oid, null, p.name, 'relaybox_driver'
from tables o
cross join unnest(o.driver_may) p (name)
union all
select 'relation', o.oid, null, 'SELECT', 'relaybox_reader' from tables o
union all
select 'relation', o.oid, null, 'SELECT', 'relaybox_viewer' from tables o
where
    o.table_name not in (
        'adopted_row', 'derivation_trial_message', 'detached_payload', 'log', 'outbox', 'unmapped_row'
    )
union all
select 'relation', o.oid, null, p.name, p.grantee::name
from logs o
cross join (
    values
    ('SELECT', 'relaybox_driver'), ('INSERT', 'relaybox_driver'), ('SELECT', 'relaybox_reader')
) p (name, grantee)
union all
select 'relation', o.oid, null, 'SELECT', r.grantee::name
from segments o
cross join (values ('relaybox_driver'), ('relaybox_reader')) r (grantee)
union all
select 'relation', o.oid, null, 'SELECT', r.grantee::name
from sequences o
cross join (values ('relaybox_driver'), ('relaybox_reader'), ('relaybox_viewer')) r (grantee)
union all
select 'relation', o.oid, null, 'SELECT', r.grantee::name
from views o
cross join (values ('relaybox_driver'), ('relaybox_reader'), ('relaybox_viewer')) r (grantee)
where
    case r.grantee
        when 'relaybox_driver' then o.nspname = 'relaybox_internal'
        when 'relaybox_viewer' then o.name not in ('inbox', 'dead_letters', 'sent_rows')
        else true
    end
union all
select 'relation', c.oid, null, r.privilege, r.grantee::name
from relation_rights r
join pg_namespace n on n.nspname = r.table_schema
join pg_class c on c.relnamespace = n.oid and c.relname = r.table_name
union all
select 'relation', a.attrelid, a.attname, r.privilege, g.name::name
from column_rights r
join pg_namespace n on n.nspname = r.table_schema
join pg_class c on c.relnamespace = n.oid and c.relname = r.table_name
join pg_attribute a on a.attrelid = c.oid and a.attname = any(r.names::name[])
cross join string_to_table(r.grantee, ' ') g (name)
union all
select 'function', o.oid, null, 'EXECUTE', r.grantee::name
from function_rights r
join functions o on o.name = any(r.names)
union all
-- with the rights of who calls it: it can't do more than the role may
select 'function', o.oid, null, 'EXECUTE', r.grantee::name
from functions o
cross join (values ('relaybox_driver'), ('relaybox_reader'), ('relaybox_viewer')) r (grantee)
where
    not o.prosecdef and o.name <> 'new_message_id'
    and (r.grantee <> 'relaybox_driver' or o.nspname = 'relaybox_internal')
$$;
