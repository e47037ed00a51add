-- Returns 0 for a part of the fingerprint that the server refuses to tell, if a provider answers for
-- the store. Else raises RB003, with what the server said.
create or replace function relaybox_internal.unknown_cluster(said text, code text)
returns integer
language plpgsql stable
as $$
begin
    if (select s.durability from relaybox_internal.store s) = 'provider' then
        return 0;
    end if;
    raise exception using errcode = 'RB003',
        message = format(
            'the server does not tell which history of which cluster it is: %s (%s)', said, code
        ),
        hint = format(
            'As a superuser: grant execute on function pg_control_system(), '
            'pg_current_wal_insert_lsn(), pg_walfile_name(pg_lsn) to %I. If the provider gives '
            'that to nobody: set durability of the store to provider in relaybox.yaml, with a '
            'reason, and run relaybox init.', current_user
        );
end
$$;
