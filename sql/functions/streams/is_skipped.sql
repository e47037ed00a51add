-- Returns whether every index of a sender from first_index to before before_index was given up, or
-- set aside before its turn.
create or replace function relaybox_internal.is_skipped(
    sender_id_ integer, first_index bigint, before_index bigint
)
returns boolean
language sql stable
as $$
    select first_index >= before_index or coalesce(
        (
            select s.skipped @> int8range(first_index, before_index)
            from relaybox_internal.sender_state s where s.sender_id = sender_id_
        ),
        false
    )
$$;
