-- Raises RB001 on a standby or where nothing can be written, and RB002 unless the caller's transaction
-- is READ COMMITTED and has written nothing: a snapshot of it tells what others have sent.
create or replace function relaybox_internal.require_fresh_transaction() returns void
language plpgsql volatile
as $$
begin
    perform relaybox_internal.require_writable_primary();
    if pg_current_xact_id_if_assigned() is not null
        or current_setting('transaction_isolation') <> 'read committed'
    then
        raise exception using errcode = 'RB002',
            message = 'planning needs a fresh READ COMMITTED transaction: '
                'a snapshot taken after a write counts the own rows as visible';
    end if;
end
$$;
