-- Classifies the messages of senders that are not in order. The outcome is null (may be delivered),
-- duplicate, or the reason to set it aside. In an order that waits for a sender's earlier indexes,
-- release_seq is the arrival number at which all of them are here. One statement with one sort of
-- all rows by (sender, index, arrival): the first message of an index stands first. It is not
-- split, since each part would need ten of these flags as arguments.
create or replace function relaybox_internal.classify_rows(
    stream_ relaybox_internal.stream, input_log relaybox_internal.stream_log, first_position bigint,
    last_position bigint
)
returns void
language plpgsql volatile
set work_mem = '256MB'
set enable_nestloop = off
set enable_mergejoin = off
set jit = off
as $$
declare
    waits_for_earlier boolean := stream_.delivery_order in ('fifo', 'causal');
    is_causal boolean := stream_.delivery_order = 'causal';
    -- the arrival number of a position of this batch is position + seq_shift
    seq_shift bigint := stream_.arrival_seq - first_position + 1;
    has_repeated_ids boolean := exists (select from pg_temp.repeated_id);
    has_seen boolean := exists (select from pg_temp.already_seen);
    has_skips boolean := exists (
        select from relaybox_internal.sender_state s
        where s.stream_id = stream_.stream_id and s.skipped <> '{}'
    );
    has_resumed boolean := exists (
        select from pg_temp.decision_sender where resumes_after is not null
    );
    has_ended boolean := exists (select from pg_temp.epoch_end);
begin
    if not exists (
        select from pg_temp.decision_sender b
        where not b.is_in_order and not b.is_stalled
            and not exists (select from pg_temp.sorted_sender s where s.sender_id = b.sender_id)
    ) and not has_ended and not stream_.recheck
    then
        return;
    end if;
    with examined as (
        select a.* from relaybox_internal.list_arrived(
            input_log.log_id, first_position, last_position, seq_shift, waits_for_earlier,
            is_causal, has_repeated_ids, has_ended
        ) a
        union all
        select r.*
        from relaybox_internal.list_resumed(input_log.log_id, first_position) r where has_resumed
        union all
        select h.*
        from relaybox_internal.list_held(stream_.stream_id, is_causal or stream_.recheck) h
    ), chained as (
        -- chain: the sender, if the index is its own and no rule refuses the message
        select l.*, case when l.outcome is null and l.epoch > 0 then l.sender_id end as chain
        from examined l
    ), compared as (
        select c.*,
            c.chain is not null and (
                c.index <= c.watermark
                -- seen indexes are kept in chunks of 4096
                or has_seen and exists (
                    select from pg_temp.already_seen a
                    where a.sender_id = c.chain and a.chunk = c.index >> 12 and a.indexes @> c.index
                )
                -- a skipped index beyond the watermark was not given up, but set aside early
                or has_skips and c.is_new
                and relaybox_internal.is_skipped(c.chain, c.index, c.index + 1)
            ) as is_past,
            lag(c.index) over (
                partition by c.chain order by c.index, c.arrival_seq
            ) as previous_index,
            first_value(c.log_position) over (
                partition by c.chain, c.index order by c.arrival_seq
            ) as first_position_of_index
        from chained c
    ), repeated as (
        select c.*,
            c.is_past or c.chain is not null
                and coalesce(c.previous_index = c.index, false) as is_repeated
        from compared c
    ), followed as (
        select r.*,
            max(
                case when not r.is_repeated then r.arrival_seq end
            ) over earlier as last_earlier_seq,
            bool_and(
                -- a repeated index does not show what is missing before it
                r.index <= greatest(r.previous_index, r.watermark) + 1
                or has_skips
                and relaybox_internal.is_skipped(
                    r.chain, greatest(r.previous_index, r.watermark) + 1, r.index
                )
            ) over earlier as has_all_earlier
        from repeated r
        window earlier as (partition by r.chain order by r.index, r.arrival_seq)
    )
    insert into pg_temp.classified (
        arrival_seq, log_id, log_position, sender_id, epoch, index, is_new, outcome,
        original_position, is_indexed, release_seq, release_rank
    )
    select
        f.arrival_seq, f.log_id, f.log_position, f.sender_id, f.epoch, f.index, f.is_new,
        case
            when f.chain is null then f.outcome
            when f.is_given_up then 'index_skipped'
            when f.is_repeated then 'duplicate'
        end,
        case
            when f.chain is null then f.original_position
            when not f.is_past then f.first_position_of_index
        end,
        f.chain is not null and not f.is_repeated and not f.is_given_up,
        case
            when f.chain is null then case when f.outcome is null then f.arrival_seq end
            when f.is_repeated or f.is_given_up then null
            when not waits_for_earlier then f.arrival_seq
            when has_ended then least(
                case when f.has_all_earlier then f.last_earlier_seq end,
                (select e.ended_at_seq from pg_temp.epoch_end e where e.sender_id = f.sender_id)
            )
            when f.has_all_earlier then f.last_earlier_seq
        end,
        case when waits_for_earlier then f.index end
    from followed f;
end
$$;
