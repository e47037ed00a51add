-- Raises RB040 if this store binds subscriptions to roles and the caller is bound to no subscription
-- that has this dead letter, and is no operator of its stream. The words are the same whether there
-- is such a dead letter or not. One that a stream set aside belongs to no subscription.
create or replace function relaybox_internal.require_dead_letter_role(dead_letter_id_ bigint)
returns void
language plpgsql stable
as $$
declare
    scope relaybox_internal.acting_role;
begin
    perform relaybox_internal.refuse_borrowed_session();
    select * into scope from relaybox_internal.acting_role c;
    if scope.acts_on_all or exists (
        select from relaybox_internal.dead_letter d
        join relaybox_internal.bound_subscriptions b on b.subscription_id = d.subscription_id
        where d.dead_letter_id = dead_letter_id_
    ) or exists (
        select from relaybox_internal.dead_letter d
        join relaybox_internal.allowed_streams o on o.stream_id = d.stream_id
        where d.dead_letter_id = dead_letter_id_
    ) then
        return;
    end if;
    if scope.caller is null then
        perform relaybox_internal.refuse_stale_role('RB040');
    end if;
    raise exception using errcode = 'RB040',
        message = format(
            'role %s is bound to no subscription that has a dead letter %s',
            scope.caller, coalesce(dead_letter_id_::text, 'null')
        ),
        hint = format(
            'This store binds subscriptions to roles. What this role may act on: '
            'select dead_letter_id, subscription from relaybox.dead_letters. '
            'An administrator runs: relaybox subscriptions bind %s%s',
            relaybox_internal.shell_words(
                (select s.store from relaybox_internal.store s), 'SUBSCRIPTION', scope.caller
            ),
            relaybox_internal.operator_hint(true)
        );
end
$$;
