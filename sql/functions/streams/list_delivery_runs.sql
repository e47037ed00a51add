-- The runs of a stream between two stream positions, in order, each cut to the range that is asked
-- for. Inlined. A run is a range of log positions, which read_position_range() reads, or a list of
-- them, which read_position_list() reads. log_positions is null for a range; first_position and
-- last_position mean nothing for a list.
create or replace function relaybox_internal.list_delivery_runs(
    stream_id_ integer, after_stream_position bigint, through_stream_position bigint
)
returns table (
    log_id integer, hop text, first_stream_position bigint, first_position bigint,
    last_position bigint, log_positions bigint[]
)
language sql stable
as $$
    select
        d.log_id, i.hop, greatest(d.first_stream_position, after_stream_position + 1),
        d.first_position + greatest(after_stream_position + 1 - d.first_stream_position, 0),
        d.first_position + least(d.last_stream_position, through_stream_position)
        - d.first_stream_position,
        d.log_positions[
            greatest(after_stream_position + 1 - d.first_stream_position, 0) + 1
            :least(d.last_stream_position, through_stream_position) - d.first_stream_position + 1
        ]
    from relaybox_internal.delivery d
    left join relaybox_internal.hop_in i on i.log_id = d.log_id
    where d.stream_id = stream_id_ and d.last_stream_position > after_stream_position
        and d.last_stream_position <= coalesce(
        -- the run that reaches the last stream position: the first one that ends there or beyond
        (
            select e.last_stream_position from relaybox_internal.delivery e
            where e.stream_id = stream_id_ and e.last_stream_position >= through_stream_position
            order by e.last_stream_position
            limit 1
        ),
        through_stream_position
    )
    order by d.last_stream_position
$$;
