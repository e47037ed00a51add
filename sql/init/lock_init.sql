-- Keeps other inits of a database that has no store yet out until the transaction ends. Reads
-- relaybox_init.row: the row of relaybox.migration that is locked next (lock_row.sql). A standby
-- takes no lock: the check of the server refuses it.
do $lock_init$
declare
    name constant text := 'relaybox_first_init_' || current_setting('relaybox_init.row');
begin
    if pg_is_in_recovery() or to_regclass('relaybox.migration') is not null then
        return;
    end if;
    -- Two transactions cannot make a schema of one name: the second waits for the end of the first,
    -- although that drops it at once. Only a login that may make schemas in this database gets so
    -- far, or (a superuser made our schema for it) tables in our schema.
    if to_regnamespace('relaybox') is null then
        execute format('create schema %I', name);
        execute format('drop schema %I', name);
    else
        execute format('create table relaybox.%I ()', name);
        execute format('drop table relaybox.%I', name);
    end if;
end
$lock_init$;
