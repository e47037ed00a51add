-- Says which topics the role of this session may not read, and the command that grants them. of_what:
-- where they are, as in ` of stream flights`. Always raises RB041.
create or replace function relaybox_internal.refuse_topics(topics text[], of_what text default '')
returns void
language plpgsql stable
as $$
declare
    caller text := (select scope.caller from relaybox_internal.acting_role scope);
begin
    if caller is null then
        perform relaybox_internal.refuse_stale_role('RB041');
    end if;
    raise exception using errcode = 'RB041',
        message = format(
            'role %s may not read %s%s',
            caller,
            case
                when topics = '{*}' then 'every topic'
                when cardinality(topics) = 1 then 'topic ' || topics[1]
                else 'topics ' || array_to_string(topics, ', ')
            end,
            of_what
        ),
        hint = format(
            'This store grants topics to roles. '
            'An administrator runs: relaybox topics grant %s',
            relaybox_internal.shell_words(
                variadic array[(select s.store from relaybox_internal.store s)] || topics || caller::text
            )
        );
end
$$;
