-- Puts the trigger of an adoption on the table and each of its partitions where it is missing, is that
-- of another adoption, which is taken over, or does not fire in every session. Returns the tables that it changed. Locks these tables against
-- writers until the transaction ends.
create or replace function relaybox_internal.place_adoption_triggers(adoption_id_ integer, relation regclass)
returns text[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    place record;
    changed text[] := '{}';
begin
    for place in
        select p.part, f.name as function_name, h.proname is not distinct from f.name as is_there
        from relaybox_internal.list_adopted_parts(relation) p
        cross join lateral (
            select format(case when p.is_root then 'send_rows_%s' else 'send_part_rows_%s' end, adoption_id_) as name
        ) f
        left join pg_trigger g on g.tgrelid = p.part and g.tgname = 'relaybox_adopted'
        left join pg_proc h on h.oid = g.tgfoid and h.pronamespace = 'relaybox_internal'::regnamespace
        where g.tgenabled is distinct from 'A' or h.proname is distinct from f.name
    loop
        if not place.is_there then
            execute format(
                'create or replace trigger relaybox_adopted after insert on %s referencing new table as new_rows '
                'for each statement execute function relaybox_internal.%I()', place.part, place.function_name
            );
        end if;
        execute format('alter table %s enable always trigger relaybox_adopted', place.part);
        changed := changed || place.part::text;
    end loop;
    return changed;
end
$$;
