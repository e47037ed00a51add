-- Refuses a server on which a snapshot or a ledger row can't be trusted. Raises RB001 on a standby
-- (its snapshots show open transactions as visible), RB003 if a crash could lose what was
-- committed and no provider answers for it, or if the encoding of the database is not UTF8.
create or replace function relaybox_internal.require_writable_primary() returns void
language plpgsql volatile
as $$
begin
    if pg_is_in_recovery() then
        raise exception using errcode = 'RB001',
            message = 'this server is a standby; Relaybox needs the primary',
            hint = 'Point the libpq service of this store to the primary.';
    end if;
    if
        (current_setting('fsync') <> 'on' or current_setting('full_page_writes') <> 'on')
        and (select s.durability from relaybox_internal.store s) is distinct from 'provider'
    then
        raise exception using errcode = 'RB003',
            message = format('fsync is %s and full_page_writes is %s; both must be on', current_setting('fsync'),
            current_setting('full_page_writes')),
            hint = 'Set both to on in postgresql.conf and reload. With them off a crash loses confirmed messages. '
                'If a provider makes commits durable by other means: set durability of the store to provider in '
                'relaybox.yaml and run relaybox init.';
    end if;
    if current_setting('server_encoding') <> 'UTF8' then
        raise exception using errcode = 'RB003',
            message = format('the database encoding is %s; it must be UTF8', current_setting('server_encoding')),
            hint = 'Create the database with encoding UTF8 and load the data into it.';
    end if;
end
$$;
