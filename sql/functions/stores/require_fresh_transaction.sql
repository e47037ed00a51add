-- Raises RB001 on a standby or where nothing can be written, and RB002 unless the caller's transaction
-- is READ COMMITTED and has written nothing. doing, why: of the error, what needs it and for which
-- reason.
create or replace function relaybox_internal.require_fresh_transaction(doing text, why text)
returns void
language plpgsql volatile
as $$
begin
    perform relaybox_internal.require_writable_primary();
    if pg_current_xact_id_if_assigned() is not null
        or current_setting('transaction_isolation') <> 'read committed'
    then
        raise exception using errcode = 'RB002',
            message = format('%s needs a fresh READ COMMITTED transaction: %s', doing, why);
    end if;
end
$$;
