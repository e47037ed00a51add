-- Makes the temporary tables of a decision, or empties those of the session. Small ones by delete,
-- which keeps the plans of the statements that read them; large ones by truncate.
create or replace function relaybox_internal.make_delivery_tables() returns void
language plpgsql volatile
as $$
declare
    name text;
begin
    if to_regclass('pg_temp.decision_sender') is null then
        perform relaybox_internal.create_delivery_tables();
        perform relaybox_internal.create_clock_tables();
        perform relaybox_internal.create_sorting_tables();
        return;
    end if;
    -- a session may have the others from before init brought these
    if to_regclass('pg_temp.sorted_sender') is null then
        perform relaybox_internal.create_sorting_tables();
    end if;
    for name in
        select t.name from unnest(array[
            'decision_sender', 'classified', 'epoch_end', 'repeated_id', 'already_seen',
            'repeated_index', 'sender_without_gap', 'arrived_sender', 'sorted_sender',
            'causal_message', 'named_sender', 'unmet_cause', 'release_order'
        ]) t (name)
        where pg_relation_size(('pg_temp.' || t.name)::regclass) > 0
    loop
        if pg_relation_size(('pg_temp.' || name)::regclass) > 131072 then
            execute format('truncate pg_temp.%I', name);
        else
            execute format('delete from pg_temp.%I', name);
        end if;
    end loop;
end
$$;
