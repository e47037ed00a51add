-- Whether a message of a range of a log has an expiry, and whether one is delayed, as far as it is asked
-- for. Reads the rows of the range once, by their key: the settings of scan_fresh_rows() end in this
-- function. Dynamic: a generic plan would lock all segments.
create or replace function relaybox_internal.find_times(
    log_id_ integer, first_position bigint, last_position bigint, asks_expiry boolean,
    asks_delay boolean, out has_expiry boolean, out has_delay boolean
)
language plpgsql stable
set enable_seqscan = off
set enable_bitmapscan = off
set enable_indexscan = on
set jit = off
as $$
declare
    batch constant text := format('%s %s %s', log_id_, first_position, last_position);
begin
    -- this session has published the batch, and looked when it counted the rows
    asks_expiry := asks_expiry
        and current_setting('relaybox.without_expiry', true) is distinct from batch;
    asks_delay := asks_delay
        and current_setting('relaybox.without_delay', true) is distinct from batch;
    has_expiry := false;
    has_delay := false;
    if asks_expiry or asks_delay then
        execute '
            select
                coalesce(bool_or($4 and relaybox_internal.expires_at(l.headers) is not null), false),
                coalesce(bool_or($5 and relaybox_internal.deliver_after(l.headers) is not null), false)
            from relaybox_internal.log l
            where l.log_id = $1 and l.log_position >= $2 and l.log_position <= $3'
        into has_expiry, has_delay
        using log_id_, first_position, last_position, asks_expiry, asks_delay;
    end if;
end
$$;
