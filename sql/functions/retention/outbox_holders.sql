-- The holders of the outbox, and the first seq that each needs. kind: hop (not settled yet, or sent
-- again), window (the hop's replay window; 0: none is set, everything is kept), newest (the segment
-- that producers write to stays).
create or replace function relaybox_internal.outbox_holders()
returns table (kind text, holder text, needs_from bigint, since timestamptz, policy text)
language sql stable
set enable_seqscan = off
as $$
    with leaving as (
        select h.*, coalesce(c.through_position, 0) as settled_position
        from relaybox_internal.hop_out h
        left join lateral relaybox_internal.newest_confirmation(h.hop, 'settled') c on true
        where h.reads_log is null and h.retired_at is null
    ), needed as (
        select h.hop, s.first_read as seq, b.planned_at as since
        from leaving h
        join relaybox_internal.batch b on b.hop = h.hop and (
            b.last_position > h.settled_position
            or h.resend_through > 0 and b.batch > h.resend_after
        )
        cross join relaybox_internal.batch_slices(b.slices) s
        union all
        -- its plan was lost: its rows are unknown
        select h.hop, 0, b.planned_at
        from leaving h
        join relaybox_internal.batch b
            on b.hop = h.hop and b.adopted and b.last_position > h.settled_position
        union all
        select w.hop, w.first_seq, null
        from relaybox_internal.outbox_waiting(
            array(
                select h from relaybox_internal.hop_out h where h.reads_log is null and h.retired_at is null
            )
        ) w
        union all
        -- the first seq that it may still read
        select h.hop, lower(p.seqs), null
        from leaving h
        join relaybox_internal.backlog p on p.hop = h.hop and p.state = 'routed'
    ), first as materialized (
        select distinct on (n.hop) n.hop, n.seq, n.since
        from needed n where n.seq is not null order by n.hop, n.seq, n.since
    )
    select 'hop', h.hop, f.seq, coalesce(f.since, o.sent_at), h.stopped_consumer
    from leaving h
    join first f on f.hop = h.hop
    left join relaybox_internal.sent_times(
        array(select distinct f.seq from first f where f.since is null)
    ) o on o.seq = f.seq and f.since is null
    union all
    select
        'window', h.hop,
        case
            when h.replay_window_seconds is null then 0
            else (
                select min(s.first_read)
                from relaybox_internal.batch b
                cross join relaybox_internal.batch_slices(b.slices) s
                where b.hop = h.hop
                    and b.planned_at > now() - make_interval(secs => h.replay_window_seconds)
            )
        end,
        null, null
    from leaving h
    union all
    select 'window', 'no hop reads the outbox', 0, null, null
    where not exists (select from relaybox_internal.hop_out h where h.reads_log is null)
    union all
    select 'newest', 'outbox', q.last_value, null, null from relaybox.outbox_seq q
$$;
