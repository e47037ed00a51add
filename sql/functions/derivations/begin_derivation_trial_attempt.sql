-- Records the next attempt of a trial, with at most max_count messages: no row if the trial has
-- derived from all. Ends the open attempt: its token is old now, so its messages don't count. Locks
-- the row of the trial. Raises what lock_derivation_trial() raises.
create or replace function relaybox_internal.begin_derivation_trial_attempt(
    trial_id_ integer, max_count integer, begun_by_ text
)
returns setof relaybox_internal.derivation_trial_attempt
language plpgsql volatile
as $$
declare
    trial relaybox_internal.derivation_trial := relaybox_internal.lock_derivation_trial(trial_id_);
begin
    update relaybox_internal.derivation_trial_attempt a set
        state = 'superseded', ended_at = clock_timestamp()
    where a.trial_id = trial_id_ and a.state = 'open';
    if trial.done_stream_position = trial.last_stream_position then
        return;
    end if;
    return query
    insert into relaybox_internal.derivation_trial_attempt (
        trial_id, attempt, token, first_stream_position, last_stream_position, begun_by
    )
    select
        trial_id_, coalesce((
            select max(a.attempt) from relaybox_internal.derivation_trial_attempt a
            where a.trial_id = trial_id_
        ), 0) + 1, gen_random_uuid()::text, trial.done_stream_position + 1,
        least(trial.done_stream_position + max_count, trial.last_stream_position), begun_by_
    returning *;
end
$$;
