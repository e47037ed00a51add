-- The login of Airflow's components in its metadata database: it owns that database, and is no superuser.
\set ON_ERROR_STOP on
\if :{?logins} \else \set logins /run/secrets/logins.sql \endif
-- sets airflow_password
\i :logins

select 'create role airflow' where not exists (select from pg_roles r where r.rolname = 'airflow') \gexec

set password_encryption = 'scram-sha-256';
alter role airflow login nosuperuser nocreaterole nocreatedb password :'airflow_password';
select format('alter database %I owner to airflow', current_database()) \gexec
select format('revoke connect, temporary on database %I from public', d.datname) from pg_database d where d.datallowconn \gexec
alter schema public owner to airflow;
revoke all on schema public from public;
