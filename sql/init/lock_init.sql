-- Keeps other inits of a store out until the transaction ends, also those of a database that has no
-- store yet. Reads relaybox_init.row: the row of relaybox.migration that is locked. A standby takes
-- no lock: the check of the server refuses it.
do $lock_init$
declare
    row_ constant integer := current_setting('relaybox_init.row');
    name constant text := 'relaybox_first_init_' || row_;
begin
    if pg_is_in_recovery() then
        return;
    end if;
    if to_regclass('relaybox.migration') is not null then
        perform from relaybox.migration m where m.number = row_ for update;
        if found then
            return;
        end if;
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
    if to_regclass('relaybox.migration') is not null then -- the init that was waited for has made it
        perform from relaybox.migration m where m.number = row_ for update;
    end if;
end
$lock_init$;
