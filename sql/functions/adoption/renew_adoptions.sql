-- Makes the functions of adopted tables anew that an older version has made. Takes no lock on a table
-- of an application. An adoption whose table or mapped column is missing is left as it is: `relaybox
-- doctor` names it. Called by init.
create or replace function relaybox_internal.renew_adoptions() returns void
language plpgsql volatile
as $$
declare
    one record;
begin
    for one in
        select a.adoption_id, relaybox_internal.adopted_relation(a.adoption_id) as relation
        from relaybox_internal.adopted_table a
        where a.template < 6 and not exists (
            select from relaybox_internal.list_adoption_defects() d
            where d.adoption_id = a.adoption_id and d.kind in ('table', 'column')
        )
        for update of a
    loop
        perform relaybox_internal.make_adoption_functions(one.adoption_id, one.relation);
    end loop;
end
$$;
