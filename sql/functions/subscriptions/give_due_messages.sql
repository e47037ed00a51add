-- Has the passed messages of a locked lane that are due given by the fetch, as redriven dead letters
-- are: at most max_count, those that are due for the longest time first. Writes their rows, not the
-- cursor.
create or replace function relaybox_internal.give_due_messages(
    cursor_ relaybox_internal.cursor, max_count bigint, asked_at timestamptz
)
returns void
language sql volatile
as $$
    update relaybox_internal.dead_letter d set state = 'redriving'
    where d.dead_letter_id in (
        select due.dead_letter_id from relaybox_internal.dead_letter due
        where due.subscription_id = cursor_.subscription_id and due.lane = cursor_.lane
            and due.state = 'delayed' and due.due_at <= asked_at
        order by due.due_at, due.stream_position
        limit max_count
    )
$$;
