-- A consumer without any code of Relaybox: one turn of its loop, in psql.
-- psql -v subscription=billing -v worker=script-1 -f consume.sql, again and again; prints how many messages came.
\set ON_ERROR_STOP on
\set QUIET on
begin;
create temp table got on commit drop as select * from relaybox.fetch(:'subscription', 4, worker => :'worker');
insert into public.effect (place, payload) select place, payload from got;
select count(*) as count, count(*) > 0 as any, max(place) as last, min(token) as token from got \gset
\if :any
    select relaybox.ack(:'subscription', :last, :'token') as done \gset
\endif
commit;
\echo :count
