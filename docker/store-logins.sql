-- The logins of a store's cluster, made with its first start; again by hand after a change of passwords:
--   docker compose --file docker/compose.yaml exec hub psql --dbname=relaybox --file=/docker-entrypoint-initdb.d/store-logins.sql
-- relaybox owns the database: `relaybox init` and tasks. relaybox_page and relaybox_triggerer read. The superuser is used for this alone.
\set ON_ERROR_STOP on
\if :{?logins} \else \set logins /run/secrets/logins.sql \endif
-- sets relaybox_password, page_password, triggerer_password
\i :logins

select format('create role %I', r.name)
from unnest(array[
    'relaybox', 'relaybox_page', 'relaybox_triggerer', 'relaybox_producer', 'relaybox_consumer', 'relaybox_reader', 'relaybox_operator',
    'relaybox_driver', 'relaybox_viewer'
]) r (name)
where not exists (select from pg_roles known where known.rolname = r.name) \gexec

set password_encryption = 'scram-sha-256';
alter role relaybox login nosuperuser nocreaterole nocreatedb password :'relaybox_password';
alter role relaybox_page login nosuperuser nocreaterole nocreatedb nobypassrls connection limit 40 password :'page_password';
alter role relaybox_triggerer login nosuperuser nocreaterole nocreatedb connection limit 10 password :'triggerer_password';
grant relaybox_reader to relaybox_page, relaybox_triggerer;
grant pg_read_all_stats to relaybox, relaybox_page, relaybox_triggerer;

select format('alter database %I owner to relaybox', current_database()) \gexec
select format('revoke connect, temporary on database %I from public', d.datname) from pg_database d where d.datallowconn \gexec
select format('grant connect on database %I to relaybox_producer, relaybox_consumer, relaybox_reader', current_database()) \gexec
revoke all on schema public from public;
