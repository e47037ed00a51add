-- The first batch of a hop that leaves this store whose plan is still needed: it is not settled, it is
-- the newest one, or a message of it is kept here. Late messages have low seqs, so the plans before it
-- may go and those after it stay, also where one of these has no message here.
create or replace function relaybox_internal.first_needed_batch(head relaybox_internal.hop_out)
returns bigint
language sql stable
as $$
    select n.batch
    from (
        select
            case
                when head.reads_log is null
                    then (select s.first_kept_seq from relaybox_internal.store s)
                else relaybox_internal.log_kept_from(head.reads_log)
            end as kept_from,
            case
                when head.retired_at is null then (
                    select c.through_position
                    from relaybox_internal.newest_confirmation(head.hop, 'settled') c
                )
                else head.log_position + 1
            end as settled
        offset 0 -- once, not for each batch
    ) k
    cross join lateral (
        select b.batch
        from relaybox_internal.batch b
        where b.hop = head.hop and (
            b.batch = head.batch or (b.last_position < k.settled) is not true
            or exists (
                select from relaybox_internal.batch_slices(b.slices) s where s.last_read >= k.kept_from
            )
        )
        order by b.batch
        limit 1
    ) n
$$;
