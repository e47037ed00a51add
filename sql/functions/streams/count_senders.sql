-- Counts the senders of a range of a log: the rows of each, when its first one was sent, whether its
-- indexes rise by one from row to row (ascending), and whether a message has the header of an expiry, or of a delay.
create or replace function relaybox_internal.count_senders(
    log_id_ integer, first_position bigint, last_position bigint
)
returns table (
    sender text, epoch integer, row_count bigint, first_index bigint, last_index bigint,
    ascending boolean, first_sent_at timestamptz, has_expiry boolean, has_delay boolean
)
language sql stable
as $$
    select q.sender, q.epoch, sum(q.row_count)::bigint, min(q.first_index), max(q.last_index),
        bool_and(q.ascending and q.follows), min(q.first_sent_at), bool_or(q.has_expiry), bool_or(q.has_delay)
    from (
        select c.*,
            coalesce(
                c.first_index = lag(c.last_index) over (
                    partition by c.sender, c.epoch order by c.quarter
                ) + 1,
                true
            ) as follows
        from relaybox_internal.count_quarters(log_id_, first_position, last_position) c
    ) q
    group by q.sender, q.epoch
$$;
