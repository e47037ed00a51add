-- A locked lane's cursor when a fetch comes again. A message that is fetched crash_limit times
-- without ack or nack seems to kill its worker: fetches shrink tenfold until it is alone, then it
-- is set aside. Nothing comes again if all of the fetch is set aside. Caller: something is fetched.
create or replace function relaybox_internal.refetch(
    cursor_ relaybox_internal.cursor, subscription_ relaybox_internal.subscription, worker_ text
)
returns relaybox_internal.cursor
language plpgsql volatile
as $$
declare
    kept_count bigint;
begin
    if cursor_.redrive_stream_position is not null then
        cursor_ := relaybox_internal.redrive_again(cursor_, subscription_, worker_);
    else
        if cursor_.fetch_count >= subscription_.crash_limit then
            cursor_ := relaybox_internal.shrink_fetch(cursor_, subscription_, worker_);
        end if;
        if relaybox_internal.set_aside_stream_positions(
            subscription_, cursor_.done_stream_position, cursor_.fetched_stream_position
        ) <> '{}' then
            select s.row_count into kept_count from relaybox_internal.scan_lane(
                subscription_, cursor_.lane, cursor_.done_stream_position,
                cursor_.fetched_stream_position, 1
            ) s;
            if kept_count = 0 then
                cursor_.done_stream_position := cursor_.fetched_stream_position;
            end if;
        end if;
    end if;
    cursor_.fetch_count := case
        when cursor_.redrive_stream_position is null
            and cursor_.fetched_stream_position = cursor_.done_stream_position then 0
        else cursor_.fetch_count + 1
    end;
    return cursor_;
end
$$;
