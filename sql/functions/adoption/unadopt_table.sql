-- Ends an adoption: what is inserted after the commit is not sent. What was inserted before is sent,
-- and of the adoption nothing is left. The caller holds the lock that keeps writers out
-- (lock_adopted), if the table is there. Raises RB044 if rows are unmapped that nobody has given up.
create or replace function relaybox_internal.unadopt_table(adoption_id_ integer, drop_unmapped boolean)
returns table (moved_count bigint, dropped_count bigint)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    adopted relaybox_internal.adopted_table;
    one record;
begin
    select a.* into strict adopted from relaybox_internal.adopted_table a
    where a.adoption_id = adoption_id_
    for update;
    moved_count := relaybox_internal.move_adopted_rows(adoption_id_, 2147483647);
    select count(*) into dropped_count from relaybox_internal.unmapped_row u where u.adoption_id = adoption_id_;
    if dropped_count > 0 and not drop_unmapped then
        raise exception using errcode = 'RB044',
            message = format(
                'table %s: %s unmapped and never sent', adopted.table_name,
                case dropped_count when 1 then '1 row is' else dropped_count || ' rows are' end
            ),
            hint = format(
                'Send them: relaybox adopt %1$s --send-unmapped. Or give them up: relaybox unadopt %1$s --drop-unmapped',
                (select relaybox_internal.shell_words(s.store, adopted.table_name) from relaybox_internal.store s)
            );
    end if;
    for one in
        select g.tgrelid::regclass as part
        from pg_trigger g
        join pg_proc p on p.oid = g.tgfoid
        where
            p.pronamespace = 'relaybox_internal'::regnamespace
            and p.proname in (format('send_rows_%s', adoption_id_), format('send_part_rows_%s', adoption_id_))
    loop
        execute format('drop trigger relaybox_adopted on %s', one.part);
    end loop;
    perform relaybox_internal.drop_adoption_functions(adoption_id_);
    delete from relaybox_internal.unmapped_row u where u.adoption_id = adoption_id_;
    delete from relaybox_internal.adopted_table a where a.adoption_id = adoption_id_;
    return next;
end
$$;
