-- Lets a database role, and roles that inherit it, read messages of a topic; *: of every topic. The
-- topic need not exist yet. It has an effect only if the store asks for grants (bind_topics). Returns
-- whether the grant is new. For the owner. Raises RB036 (no name of a topic, or no such role).
create or replace function relaybox_internal.grant_topic(topic_ text, role_name_ name)
returns boolean
language plpgsql volatile
as $$
begin
    if (topic_ = '*' or topic_ ~ '^[a-z0-9_.-]{1,48}$') is not true then
        raise exception using errcode = 'RB036',
            message = format(
                'the name %L of a topic must be 1 to 48 of a-z 0-9 _ . - or * for every topic',
                left(topic_, 70)
            );
    end if;
    if not exists (select from pg_roles r where r.rolname = role_name_) then
        raise exception using errcode = 'RB036',
            message = format('there is no role %s in this cluster', role_name_),
            hint = format(
                'Create it first: create role %I login in role relaybox_consumer', role_name_
            );
    end if;
    insert into relaybox_internal.topic_role (topic, role_name)
    values (topic_, role_name_)
    on conflict do nothing;
    return found;
end
$$;
