-- The earlier position of a log of which a position was decided to be a duplicate, by its sender's
-- index or, within the window, its sender's message id, and when; original is null if its message
-- is no longer kept. No row: the position is no duplicate. The message: its columns; null if it is
-- no longer kept.
create or replace function relaybox_internal.trace_duplicate(
    sender_ text, epoch_ integer, index_ bigint, message_id_ uuid, log_id_ integer,
    log_position_ bigint, message_id_window_ bigint
)
returns table (log_position bigint, decided_at timestamptz, original bigint)
language sql stable
as $$
    select log_position_, d.decided_at, (
        select min(earlier.log_position)
        from relaybox_internal.log earlier
        where earlier.log_id = log_id_ and earlier.log_position < log_position_ and (
            epoch_ > 0 and (earlier.sender, earlier.epoch, earlier.index)
            = (sender_, epoch_, index_)
            or earlier.log_position >= log_position_ - message_id_window_
            and (earlier.sender, earlier.message_id) = (sender_, message_id_)
        )
    )
    from relaybox_internal.decision d
    where d.log_id = log_id_ and log_position_ = any(d.duplicates)
    limit 1
$$;
