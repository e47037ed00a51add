-- A consumer without any code of Relaybox: one turn of its loop, in psql. Its login needs relaybox_consumer and its own table, no more.
-- One transaction: a message that kills psql is fetched again and again (docs/runbooks/killed-workers.md).
-- psql -v subscription=billing -v worker=script-1 -f consume.sql "$BILLING_URL", again and again; prints how many messages came.
-- Its work: create table public.effect (stream_position bigint, payload text);
\set ON_ERROR_STOP on
\set QUIET on
begin;
-- fetch is called once, and its messages are worked on and counted in one statement
with fetched as materialized (
    select stream_position, token, payload from relaybox.fetch(:'subscription', 4, worker => :'worker')
), worked as (
    insert into public.effect (stream_position, payload) select stream_position, payload from fetched
)
select count(*) as count, count(*) > 0 as any, max(stream_position) as last, min(token) as token from fetched \gset
\if :any
    select relaybox.ack(:'subscription', :last, :'token') as done \gset
\endif
commit;
\echo :count
