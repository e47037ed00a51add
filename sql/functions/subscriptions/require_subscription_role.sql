-- Raises RB040 if this store binds subscriptions to roles and the caller is not bound to this name; of
-- a second cursor, whatever its name is, to the name of its subscription (bound_names()). The words
-- are the same whether there is such a subscription or not. is_reading: the caller changes nothing,
-- and readers may. is_operating: operators of the stream that the subscription reads may too.
create or replace function relaybox_internal.require_subscription_role(
    name text, is_reading boolean default false, is_operating boolean default false
)
returns void
language plpgsql stable
as $$
declare
    scope relaybox_internal.acting_role;
    bound text[];
begin
    select * into scope from relaybox_internal.acting_role c;
    if scope.acts_on_all or is_reading and scope.sees_all then
        return;
    end if;
    bound := relaybox_internal.bound_names(name);
    if exists (
        select from relaybox_internal.subscription_role b
        where b.subscription = any(bound)
            and pg_has_role(scope.caller, to_regrole(quote_ident(b.role_name))::oid, 'usage')
    ) or is_operating and exists (
        select from relaybox_internal.subscription n
        join relaybox_internal.allowed_streams o on o.stream_id = n.stream_id
        where n.subscription = name and n.ended_at is null
    ) then
        return;
    end if;
    if scope.caller is null then
        perform relaybox_internal.refuse_stale_role('RB040');
    end if;
    raise exception using errcode = 'RB040',
        message = format(
            'role %s is not bound to subscription %s',
            scope.caller, coalesce(left(name, 70), 'null')
        ),
        hint = format(
            'This store binds subscriptions to roles. '
            'An administrator runs: relaybox subscriptions bind %s%s',
            relaybox_internal.shell_words(
                (select s.store from relaybox_internal.store s),
                case
                    when not relaybox_internal.is_second_cursor_name(name) then left(name, 70)
                    -- a longer one is cut, and does not tell of which subscription it is
                    when length(name) <= 50 then regexp_replace(name, '[.]replay(-[0-9]+)?$', '')
                    else 'SUBSCRIPTION'
                end,
                scope.caller
            ),
            relaybox_internal.operator_hint(is_operating)
        );
end
$$;
