-- Repairs the tables of a store where that loses nothing: list_table_defects(). Reads relaybox_init.tables:
-- sql/table_definitions.json. Writes relaybox_init.repaired_tables and relaybox_init.differing_tables:
-- what it repaired, and what it left with the statement that repairs it, each as an array of JSON. What
-- rows contradict, or what others depend on, is left.
do $repair_tables$
declare
    expected constant jsonb := current_setting('relaybox_init.tables')::jsonb;
    defect record;
    repaired jsonb := '[]';
    differing jsonb := '[]';
begin
    for defect in
        select d.* from relaybox_internal.list_table_defects(expected) d where d.is_mendable
    loop
        begin
            execute defect.statement;
            repaired := repaired || to_jsonb(defect.defect);
        exception
            when integrity_constraint_violation or dependent_objects_still_exist
                or feature_not_supported or invalid_table_definition or insufficient_privilege
                or datatype_mismatch or wrong_object_type or undefined_object or undefined_table
                or undefined_column or undefined_function or duplicate_object or duplicate_table
                or object_not_in_prerequisite_state
            then
                raise log 'relaybox init could not run "%": %', defect.statement, sqlerrm;
        end;
    end loop;
    for defect in select d.* from relaybox_internal.list_table_defects(expected) d loop
        differing := differing || to_jsonb(format('%s. To repair it: %s', defect.defect, defect.statement));
        raise warning 'init leaves as it is: %. To repair it, as the owner: %', defect.defect, defect.statement;
    end loop;
    perform set_config('relaybox_init.repaired_tables', repaired::text, true),
        set_config('relaybox_init.differing_tables', differing::text, true);
end
$repair_tables$;
