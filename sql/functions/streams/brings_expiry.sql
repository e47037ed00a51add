-- Whether a message of a range of a log has an expiry. Reads the rows of the range, by their key: the
-- settings of scan_fresh_rows() end in this function. Dynamic: a generic plan would lock all segments.
create or replace function relaybox_internal.brings_expiry(
    log_id_ integer, first_position bigint, last_position bigint
)
returns boolean
language plpgsql stable
set enable_seqscan = off
set enable_bitmapscan = off
set enable_indexscan = on
set jit = off
as $$
declare
    is_found boolean;
begin
    if current_setting('relaybox.without_expiry', true)
        = format('%s %s %s', log_id_, first_position, last_position) then
        return false; -- this session has published the batch, and looked when it counted the rows
    end if;
    execute '
        select exists (
            select from relaybox_internal.log l
            where l.log_id = $1 and l.log_position >= $2 and l.log_position <= $3
                and relaybox_internal.expires_at(l.headers) is not null
        )'
    into is_found using log_id_, first_position, last_position;
    return is_found;
end
$$;
