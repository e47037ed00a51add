-- pre: adds a role, and takes back a right that nobody could use
-- The functions that make and drop segments have the owner's rights from now on. Readers could call
-- them until now, without effect: they have no right on the tables.
do $$
declare
    made_definer text;
begin
    for made_definer in
        select p.oid::regprocedure::text from pg_proc p
        where p.pronamespace = 'relaybox_internal'::regnamespace
            and p.proname in ('ensure_outbox_segments', 'ensure_log_segments', 'drop_oldest_segment', 'begin_attach', 'finish_attach')
    loop
        execute format('revoke all on function %s from public, relaybox_reader', made_definer);
    end loop;
end
$$;
