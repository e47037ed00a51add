-- Finds a lane's next messages after a stream position and up to bound_stream_position, at most
-- max_count of them, without those that are set aside. through_stream_position: of the last one
-- found; if there is none, the bound.
create or replace function relaybox_internal.scan_lane(
    subscription_ relaybox_internal.subscription, lane_ integer,
    after_stream_position bigint, bound_stream_position bigint, max_count bigint,
    out through_stream_position bigint, out row_count bigint
)
language plpgsql stable
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    set_aside_stream_positions bigint[] := relaybox_internal.set_aside_stream_positions(
        subscription_, after_stream_position, bound_stream_position
    );
    delivery_run record;
    run_row_count bigint;
    run_last_stream_position bigint;
begin
    through_stream_position := greatest(after_stream_position, bound_stream_position);
    row_count := 0;
    if subscription_.lanes = 1 and subscription_.topic is null
        and set_aside_stream_positions = '{}' then
        through_stream_position := greatest(
            after_stream_position,
            least(bound_stream_position, after_stream_position + max_count)
        );
        row_count := through_stream_position - after_stream_position;
        return;
    end if;
    for delivery_run in
        select r.* from relaybox_internal.list_delivery_runs(
            subscription_.stream_id, after_stream_position, bound_stream_position
        ) r
    loop
        if delivery_run.log_positions is null then
            select count(*), max(lane_message.stream_position)
            into run_row_count, run_last_stream_position
            from (
                select m.stream_position
                from relaybox_internal.read_position_range(
                    delivery_run.log_id, delivery_run.first_stream_position,
                    delivery_run.first_position, delivery_run.last_position
                ) m
                where relaybox_internal.takes_message(
                    subscription_.topic, subscription_.lanes, subscription_.lane_by, lane_,
                    m.topic, m.sender, m.key
                )
                and m.stream_position <> all(set_aside_stream_positions)
                limit max_count - row_count
            ) lane_message;
        else
            select count(*), max(lane_message.stream_position)
            into run_row_count, run_last_stream_position
            from (
                select m.stream_position
                from relaybox_internal.read_position_list(
                    delivery_run.log_id, delivery_run.first_stream_position,
                    delivery_run.log_positions
                ) m
                where relaybox_internal.takes_message(
                    subscription_.topic, subscription_.lanes, subscription_.lane_by, lane_,
                    m.topic, m.sender, m.key
                )
                and m.stream_position <> all(set_aside_stream_positions)
                limit max_count - row_count
            ) lane_message;
        end if;
        row_count := row_count + run_row_count;
        through_stream_position := case
            when run_row_count > 0 then run_last_stream_position else through_stream_position
        end;
        exit when row_count >= max_count;
    end loop;
end
$$;
