-- What the slices of a batch cover together. is_out_of_step: a slice does not begin right after the
-- one before it, or reads what that one has read. position_before and read_before: where the batch
-- begins, both exclusive. Inlined.
create or replace function relaybox_internal.span_slices(
    slices jsonb, position_before bigint, read_before bigint
)
returns table (
    row_count numeric, first_position bigint, last_position bigint, first_read bigint,
    last_read bigint, is_out_of_step boolean
)
language sql immutable
as $$
    select sum(s.row_count), min(s.first_position), max(s.first_position + s.row_count - 1),
        min(s.first_read), max(s.last_read),
        bool_or(
            s.first_position <> s.previous_position + 1 or s.first_read <= s.previous_read
            or s.last_read < s.first_read
        )
    from (
        select c.*,
            lag(c.first_position + c.row_count - 1, 1, position_before) over (order by c.slice)
                as previous_position,
            lag(c.last_read, 1, read_before) over (order by c.slice) as previous_read
        from relaybox_internal.batch_slices(slices) c
    ) s
    having count(*) > 0
$$;
