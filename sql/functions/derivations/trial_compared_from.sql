-- The first stream position of a trial from which on the outbox has all messages that the version
-- before has sent; beyond the trial's last one if it has not. Retention removes the oldest.
create or replace function relaybox_internal.trial_compared_from(trial_id_ integer)
returns bigint
language sql volatile
as $$
    select greatest(t.first_stream_position, (
        select max(upper(a.stream_positions * int8multirange(
            int8range(t.first_stream_position, t.last_stream_position, '[]')
        )))
        from relaybox_internal.derivation_attempt a
        where a.derivation_id = t.derivation_id and a.first_seq < coalesce(
            (select o.seq from relaybox_internal.sent_rows o order by o.seq limit 1), 9223372036854775807
        ) and a.stream_positions && int8multirange(
            int8range(t.first_stream_position, t.last_stream_position, '[]')
        )
    ))
    from relaybox_internal.derivation_trial t
    where t.trial_id = trial_id_
$$;
