-- Returns the topics for which the outbox refuses messages that do not conform: what the trigger that
-- place_payload_trigger() made was made for. Null: there is no such trigger, or it was changed by hand
-- and does not fire for each message of these topics, whatever session_replication_role is.
create or replace function relaybox_internal.payload_trigger_topics() returns text[]
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select array_remove(string_to_array(encode(g.tgargs, 'escape'), e'\\000'), '')
    from pg_trigger g
    join pg_proc p
        on p.oid = g.tgfoid and p.proname = 'refuse_payload' and p.pronamespace = 'relaybox_internal'::regnamespace
    where
        g.tgrelid = 'relaybox.outbox'::regclass and g.tgname = 'refuse_payload'
        and g.tgenabled = 'A' and g.tgtype = 5 -- after insert, for each row
        and not exists (
            select from pg_trigger c
            where c.tgparentid = g.oid and c.tgenabled <> 'A'
        )
$$;
