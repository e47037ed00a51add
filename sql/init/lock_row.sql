-- Keeps other inits of a store out until the transaction ends. Reads relaybox_init.row: the row of
-- relaybox.migration that is locked. After lock_init.sql, and after the check of the owner.
do $lock_row$
begin
    if to_regclass('relaybox.migration') is not null and not pg_is_in_recovery() then
        perform from relaybox.migration m
        where m.number = current_setting('relaybox_init.row')::integer
        for update;
    end if;
end
$lock_row$;
