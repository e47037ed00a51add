-- Whether a name is of the form that second_cursor_name() gives: only second cursors may have it.
create or replace function relaybox_internal.is_second_cursor_name(name text) returns boolean
language sql immutable parallel safe
as $$
    select right(name, 20) ~ '[.]replay(-[0-9]+)?$'
$$;
