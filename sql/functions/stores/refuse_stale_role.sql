-- Raises `refusal`: this session has set a role that its login may not set now. The role was renamed
-- or dropped since, or taken from the login.
create or replace function relaybox_internal.refuse_stale_role(refusal text) returns void
language plpgsql stable
as $$
begin
    raise exception using errcode = refusal,
        message = format(
            'this session has set role %s, which was since renamed, dropped or taken from login %s',
            current_setting('role'), session_user
        ),
        hint = 'Run: reset role. Or set the role again by the name that it has now.';
end
$$;
