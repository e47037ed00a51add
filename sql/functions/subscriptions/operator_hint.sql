-- The end of a hint: how an administrator makes the caller an operator of a stream; empty if that
-- would not help. is_operating: operators of the stream may do what was refused.
create or replace function relaybox_internal.operator_hint(is_operating boolean) returns text
language sql stable
as $$
    select case
        when
            is_operating
            and pg_has_role(scope.caller, to_regrole('relaybox_operator')::oid, 'usage')
            then format(
                '; or, for all subscriptions of a stream: relaybox operators bind %s',
                relaybox_internal.shell_words(
                    (select s.store from relaybox_internal.store s), 'STREAM', scope.caller
                )
            )
        else ''
    end
    from relaybox_internal.acting_role scope
$$;
