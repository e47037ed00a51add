-- Metrics of the database: its oldest transaction that writes, and the bytes of our tables.
create or replace function relaybox_internal.server_metrics()
returns table (metric text, labels jsonb, value double precision)
language sql stable
as $$
    select
        'relaybox_store_oldest_transaction_seconds', '{}'::jsonb,
        relaybox_internal.age_seconds(min(o.since))
    from (
        select a.xact_start as since from pg_stat_activity a
        where
            a.datname = current_database()
            and a.backend_xid is not null and a.pid <> pg_backend_pid()
        union all
        -- a prepared transaction has no session
        select x.prepared from pg_prepared_xacts x where x.database = current_database()
    ) o
    union all
    select
        'relaybox_store_bytes', jsonb_build_object('part', t.part),
        sum(pg_total_relation_size(t.oid))
    from (
        select
            c.oid,
            case
                when c.relname like 'outbox%' then 'outbox'
                when c.relname like 'log%' then 'logs'
                when c.relname in (
                    'batch', 'attempt', 'receipt', 'arrival', 'confirmation', 'decision', 'delivery'
                ) then 'ledgers'
                else 'rest'
            end as part
        from pg_class c
        where
            c.relnamespace in ('relaybox'::regnamespace, 'relaybox_internal'::regnamespace)
            and c.relkind = 'r'
    ) t
    group by t.part
$$;
