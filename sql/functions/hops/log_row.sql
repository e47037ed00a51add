-- The row of a log at a position, without its content. No row: there is none. Planned with the
-- position, so that only its segment is looked at.
create or replace function relaybox_internal.log_row(log_id_ integer, log_position_ bigint)
returns table (message_id uuid, sent_at timestamptz)
language plpgsql stable
set plan_cache_mode = force_custom_plan
set enable_seqscan = off
as $$
begin
    return query
    select l.message_id, l.sent_at from relaybox_internal.log l
    where l.log_id = log_id_ and l.log_position = log_position_;
end
$$;
