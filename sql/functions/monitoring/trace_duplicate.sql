-- The earlier position of a log of which a position was decided to be a duplicate, by its sender's
-- index or, within the window, its sender's message id, and when; original is null if its message
-- is no longer kept. No row: the position is no duplicate. The message: its columns; null if it is
-- no longer kept. Only for a duplicate is the log looked at: within the window, and for an index of
-- the sender's own from the beginning.
create or replace function relaybox_internal.trace_duplicate(
    sender_ text, epoch_ integer, index_ bigint, message_id_ uuid, log_id_ integer,
    log_position_ bigint, message_id_window_ bigint
)
returns table (log_position bigint, decided_at timestamptz, original bigint)
language plpgsql stable
set plan_cache_mode = force_custom_plan
as $$
begin
    select d.decided_at into decided_at
    from relaybox_internal.decision d
    where d.log_id = log_id_ and log_position_ = any(d.duplicates)
    limit 1;
    if not found then
        return;
    end if;
    log_position := log_position_;
    select min(earlier.log_position) into original
    from relaybox_internal.log earlier
    where earlier.log_id = log_id_ and earlier.log_position < log_position_
        and earlier.log_position >= log_position_ - message_id_window_
        and (earlier.sender, earlier.message_id) = (sender_, message_id_);
    if epoch_ > 0 then
        original := least(original, (
            select min(earlier.log_position)
            from relaybox_internal.log earlier
            where earlier.log_id = log_id_ and earlier.log_position < log_position_
                and (earlier.sender, earlier.epoch, earlier.index) = (sender_, epoch_, index_)
        ));
    end if;
    return next;
end
$$;
