-- Passes the messages of a locked lane's fetch that are not due: a row for each, of the state delayed,
-- from which give_due_messages() has it given when it is due. Returns how many. Writes these rows, not
-- the cursor.
create or replace function relaybox_internal.pass_delayed(
    lane_cursor relaybox_internal.cursor, subscription relaybox_internal.subscription,
    asked_at timestamptz, worker text
)
returns bigint
language plpgsql volatile
as $$
declare
    passed_count bigint;
begin
    insert into relaybox_internal.dead_letter as d (
        stream_id, log_id, log_position, reason, detail, subscription_id, lane, stream_position,
        sender, attempts, last_by, state, due_at
    )
    select
        subscription.stream_id, m.log_id, m.log_position, 'delayed',
        format('not due until %s', m.due_at), subscription.subscription_id, lane_cursor.lane,
        m.stream_position, m.sender, 0, worker, 'delayed', m.due_at
    from relaybox_internal.find_delayed(
        lane_cursor, subscription, lane_cursor.done_stream_position,
        lane_cursor.fetched_stream_position, asked_at, null
    ) m
    on conflict (subscription_id, stream_position) do update
    set state = excluded.state, reason = excluded.reason, detail = excluded.detail,
        due_at = excluded.due_at, last_at = clock_timestamp(), last_by = excluded.last_by,
        resolved_at = null, resolved_by = null, resolved_reason = null
    where d.state = 'redriven';
    get diagnostics passed_count = row_count;
    return passed_count;
end
$$;
