-- Registers a hop that arrives here and makes its log. Idempotent; returns the log's id.
create or replace function relaybox_internal.register_hop_in(
    hop_name text, source_ text, out log_id integer, out registered boolean
)
language plpgsql volatile
as $$
begin
    select i.log_id into log_id from relaybox_internal.hop_in i where i.hop = hop_name;
    registered := not found;
    if registered then
        insert into relaybox_internal.hop_in (hop, source)
        values (hop_name, source_)
        returning hop_in.log_id into log_id;
        execute format(
            'create table relaybox_internal.log_%s partition of relaybox_internal.log '
            'for values in (%s) partition by range (log_position)', log_id, log_id
        );
        execute format(
            'alter table relaybox_internal.log_%s alter column log_id set default %s', log_id,
            log_id
        );
        perform relaybox_internal.limit_rights(
            format('relaybox_internal.log_%s', log_id)::regclass,
            'relaybox_internal.log'::regclass
        );
        execute format('grant insert on relaybox_internal.log_%s to relaybox_driver', log_id);
    end if;
    perform relaybox_internal.ensure_log_segments(log_id, 0);
end
$$;
