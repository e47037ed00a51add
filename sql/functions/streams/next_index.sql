-- Returns the next number of a gapless sender's epoch, as next_indexes() gives it. Locks the counter
-- row until the transaction ends. Raises RB022 (not declared, or sparse), RB023 (a sender of another
-- role).
create or replace function relaybox.next_index(sender text) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
begin
    return relaybox.next_indexes(next_index.sender, 1);
end
$$;

comment on function relaybox.next_index(text) is
'Returns the next number of a gapless sender: the value for column `index` of relaybox.outbox.
`sender`: its name.
The counter stays locked until the transaction ends: a rollback gives the number back, and other
transactions of the sender wait.
Errors: RB022 (not declared, or sparse), RB023 (the sender is bound to another role).';
