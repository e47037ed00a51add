-- The names to which a role must be bound to use the subscription of a name: its own; of a second
-- cursor, also of one that is not there, only that of the subscription that it replays.
create or replace function relaybox_internal.bound_names(name text) returns text[]
language plpgsql stable
as $$
declare
    found_name text;
begin
    select coalesce(parent.subscription, n.subscription) into found_name
    from relaybox_internal.subscription n
    left join relaybox_internal.subscription parent on parent.subscription_id = n.replay_of
    where n.subscription = name and n.ended_at is null;
    if found_name is not null or not relaybox_internal.is_second_cursor_name(name) then
        return array[coalesce(found_name, name)];
    end if;
    return array(
        select distinct b.subscription from relaybox_internal.subscription_role b
        where relaybox_internal.second_cursor_name(b.subscription)
            = regexp_replace(name, '-[0-9]+$', '')
    );
end
$$;
