-- Ends an attempt that is locked, and whose messages the caller's transaction has inserted: the trial
-- has derived from its messages.
create or replace function relaybox_internal.finish_derivation_trial_attempt(
    trial_id_ integer, attempt_ bigint, derived_count_ bigint
)
returns void
language sql volatile
as $$
    with ended as (
        update relaybox_internal.derivation_trial_attempt a set
            state = 'done', ended_at = clock_timestamp(), derived_count = derived_count_
        where a.trial_id = trial_id_ and a.attempt = attempt_
        returning a.last_stream_position
    )
    update relaybox_internal.derivation_trial t set
        done_stream_position = e.last_stream_position
    from ended e
    where t.trial_id = trial_id_
$$;
