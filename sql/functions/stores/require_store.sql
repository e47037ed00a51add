-- Raises RB018 if this is not the store with this store_id: the connection leads to another database
-- than the driver's did.
create or replace function relaybox_internal.require_store(store_id_ uuid)
returns void
language plpgsql stable
as $$
declare
    here relaybox_internal.store;
begin
    select * into here from relaybox_internal.store s;
    if here.store_id <> store_id_ then
        raise exception using errcode = 'RB018',
            message = format(
                '%s is store %s here, and store %s where the batch was planned: '
                'the connection leads to another database', here.store, here.store_id, store_id_
            ),
            hint = format(
                'Nothing was copied. Correct the connection of store %s, for the driver and for '
                'its Spark workers.', here.store
            );
    end if;
end
$$;
