-- What the destination of a hop holds at a planned log position: the slice's receipt, the batch's
-- arrival, the row at the position. is_kept: retention has not dropped the position; is_detached:
-- it is in files from which it may come back. No row: the hop does not arrive here.
create or replace function relaybox_internal.trace_arrival(
    hop_name text, batch_ bigint, slice_ integer, log_position_ bigint
)
returns table (
    copied_at timestamptz, attempt bigint, published_at timestamptz, message_id uuid,
    is_kept boolean, is_detached boolean
)
language sql stable
as $$
    select
        r.copied_at, r.attempt, a.published_at, l.message_id,
        log_position_ >= i.first_kept_position,
        exists (
            select from relaybox_internal.detached_segment d
            where d.log_id = i.log_id and d.state = 'detached'
                and log_position_ between d.first and d.last
        )
    from relaybox_internal.hop_in i
    left join relaybox_internal.receipt r
        on r.log_id = i.log_id and r.batch = batch_ and r.slice = slice_
    left join relaybox_internal.arrival a on a.log_id = i.log_id and a.batch = batch_
    left join lateral relaybox_internal.log_row(i.log_id, log_position_) l on true
    where i.hop = hop_name
$$;
