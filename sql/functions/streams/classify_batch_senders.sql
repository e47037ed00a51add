-- Fills in the state of each sender of a batch, and which senders are in order. In order means that
-- nothing of the sender is missing, repeated, early or of another epoch than before. Until its
-- first message is accepted, it also means that none was sent before the sender was declared.
create or replace function relaybox_internal.classify_batch_senders(
    stream_ relaybox_internal.stream, input_log relaybox_internal.stream_log
)
returns void
language sql volatile
as $$
    update pg_temp.decision_sender b set
        sender_id = k.sender_id, kind = coalesce(k.state_kind, k.declared_kind),
        declared_at = k.declared_at, first_declared_at = k.first_declared_at,
        is_of_another_store = k.is_of_another_store, has_begun = k.has_begun,
        watermark = coalesce(k.watermark, 0), given_up = coalesce(k.given_up, '{}'),
        is_stalled = k.stalled_after is not null,
        is_in_order = k.stalled_after is null and coalesce(case
            when b.epoch = 0 then k.first_declared_at is null and stream_.delivery_order <> 'causal'
            when not b.is_ascending or b.resumes_after is not null or k.epochs > 1
                or k.is_of_another_store then false
            -- an epoch that begins ends the lower ones: their waiting messages are classified
            when not k.has_begun and (b.first_sent_at < k.declared_at or k.has_other_epoch)
                then false
            when k.sender_id is null then k.declared_kind = 'gapless' and b.first_index = 1
            else k.state_kind = 'gapless' and k.is_newest and k.held_count = 0 and k.seen_beyond = 0
                and b.first_index = k.watermark + 1
                and not k.skipped && int8range(b.first_index, b.last_index, '[]')
        end, false)
    from (
        select
            g.sender, g.epoch, s.sender_id, s.begun_at is not null as has_begun,
            s.kind as state_kind, s.watermark, s.skipped, u.given_up, s.held_count, s.seen_beyond,
            s.stalled_after, d.kind as declared_kind, d.declared_at,
            (
                select min(a.declared_at)
                from relaybox_internal.sender a
                where a.origin = input_log.origin and a.sender = g.sender
            ) as first_declared_at,
            exists (
                select from relaybox_internal.sender_state o
                where o.stream_id = stream_.stream_id and o.sender = g.sender
                    and o.origin <> input_log.origin and o.begun_at is not null
            ) as is_of_another_store,
            not exists (
                select from relaybox_internal.sender_state o
                where o.stream_id = stream_.stream_id and o.sender = g.sender and o.epoch > g.epoch
            ) as is_newest,
            exists (
                select from relaybox_internal.sender_state o
                where o.stream_id = stream_.stream_id and o.sender = g.sender and o.epoch <> g.epoch
            ) as has_other_epoch,
            count(*) filter (where g.epoch > 0) over (partition by g.sender) as epochs
        from pg_temp.decision_sender g
        left join relaybox_internal.sender_state s
            on s.stream_id = stream_.stream_id and s.sender = g.sender and s.epoch = g.epoch
                and s.origin = input_log.origin
        left join (
            select x.sender, x.epoch,
                range_agg(int8range(x.first_index, x.last_index, '[]')) as given_up
            from relaybox_internal.skip x where x.stream_id = stream_.stream_id
            group by x.sender, x.epoch
        ) u on u.sender = g.sender and u.epoch = g.epoch
        left join relaybox_internal.sender d on d.origin = input_log.origin and d.sender = g.sender
            and d.epoch = g.epoch
    ) k
    where k.sender = b.sender and k.epoch = b.epoch;
$$;
