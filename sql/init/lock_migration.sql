-- The init that was waited for has made the table, or another role has. What is locked keeps its
-- owner, whom the next query compares with the login. To lock a view runs nothing of it.
do $lock_migration$
begin
    if to_regclass('relaybox.migration') is not null and not pg_is_in_recovery() then
        lock table relaybox.migration in row share mode;
    end if;
end
$lock_migration$;
