-- The messages before the batch that a sender left undecided when it stalled, and that are
-- classified now. Inlined in classify_rows().
create or replace function relaybox_internal.list_resumed(log_id_ integer, before_position bigint)
returns table (
    arrival_seq bigint, log_id integer, log_position bigint, sender_id integer, epoch integer,
    index bigint, is_new boolean, watermark bigint,
    is_given_up boolean, original_position bigint, outcome text
)
language sql stable
as $$
    select
        d.first_arrival_seq + l.log_position - a.first_position, l.log_id, l.log_position,
        b.sender_id, l.epoch, l.index, true, b.watermark,
        b.given_up @> l.index,
        (
            select i.original_position
            from pg_temp.repeated_id i where i.log_position = l.log_position
        ),
        case
            when exists (
                select from pg_temp.repeated_id i where i.log_position = l.log_position
            ) then 'duplicate'
            when coalesce(b.declared_at > l.sent_at, true) then 'epoch_not_begun'
            when d.first_arrival_seq + l.log_position - a.first_position
                > (
                    select e.ended_at_seq from pg_temp.epoch_end e where e.sender_id = b.sender_id
                ) then 'epoch_fenced'
            when b.kind = 'gapless'
                and l.index > greatest(l.log_position, coalesce(upper(b.given_up) - 1, 0)) + 1000000
                then 'index_too_far'
        end
    from pg_temp.decision_sender b
    join relaybox_internal.log l on l.log_id = log_id_ and l.log_position > b.resumes_after
        and l.log_position < before_position
        and l.sender = b.sender and l.epoch = b.epoch
    join relaybox_internal.arrival a on a.log_id = log_id_ and a.first_position <= l.log_position
        and a.last_position >= l.log_position
    join relaybox_internal.decision d on d.log_id = log_id_ and d.batch = a.batch
    where b.resumes_after is not null
$$;
