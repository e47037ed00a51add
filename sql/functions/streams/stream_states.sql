-- Returns what the destination of hops has decided on the log that each of them brought: counts of its
-- decisions, and of its stream. A hop without a row: its stream is not registered here.
create or replace function relaybox_internal.stream_states(hop_names text[])
returns table (
    hop text, stream text, delivery_order text, last_stream_position bigint, decided_rows bigint,
    undecided_rows bigint, duplicate_count bigint,
    set_aside_count bigint, held_count bigint, stalled jsonb
)
language sql stable
as $$
    select
        i.hop, s.stream, s.delivery_order, s.last_stream_position, l.decided_position,
        i.published_position - l.decided_position,
        l.compacted_duplicates + (
            select coalesce(sum(d.duplicate_count), 0)::bigint
            from relaybox_internal.decision d where d.log_id = i.log_id
        ),
        (
            select count(*)
            from relaybox_internal.dead_letter d
            where d.log_id = i.log_id and d.subscription_id is null and d.state = 'open'
        ),
        (select count(*) from relaybox_internal.held h where h.log_id = i.log_id),
        coalesce((
            select jsonb_agg(
                jsonb_build_object(
                    'sender', e.sender, 'epoch', e.epoch, 'reason', e.stalled_reason
                ) order by e.sender,
                e.epoch
            )
            from relaybox_internal.sender_state e
            where e.stream_id = s.stream_id and e.origin = l.origin and e.stalled_after is not null
        ), '[]')
    from relaybox_internal.hop_in i
    join relaybox_internal.stream_log l on l.log_id = i.log_id
    join relaybox_internal.stream s on s.stream_id = l.stream_id
    where i.hop = any(hop_names)
$$;
