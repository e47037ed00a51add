-- What must be delivered before a held message: missing indexes of its own sender, and messages
-- that its clock names. [{sender, epoch, first_index, last_index}], [] for nothing. Planned with the
-- position, so that only its segment of the log is looked at.
create or replace function relaybox_internal.trace_wait(
    stream_id_ integer, log_id_ integer, log_position_ bigint, sender_id_ integer, index_ bigint
)
returns jsonb
language plpgsql stable
set plan_cache_mode = force_custom_plan
as $$
begin
    return (
        select coalesce(jsonb_agg(jsonb_build_object(
            'sender', missing.sender, 'epoch', missing.epoch,
            'first_index', missing.first_index, 'last_index', missing.last_index
        )), '[]')
        from (
            select e.sender, e.epoch, lower(gap) as first_index, upper(gap) - 1 as last_index
            from relaybox_internal.sender_state e
            cross join lateral (
                select range_agg(int8range(h.index, h.index + 1)) as indexes
                from relaybox_internal.held h where h.sender_id = e.sender_id
            ) held
            cross join lateral unnest(
                int8multirange(int8range(e.watermark + 1, greatest(index_, e.watermark + 1)))
                - held.indexes - e.skipped
            ) gap
            where e.sender_id = sender_id_
            union all
            select cause.sender, cause.epoch, cause.index, cause.index
            from relaybox_internal.unmet_causes(stream_id_, log_id_, log_position_) cause
        ) missing
    );
end
$$;
