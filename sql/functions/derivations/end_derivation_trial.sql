-- Ends an open trial and deletes its messages, which are data. Locks the row of the trial. Raises RB035
-- if it has ended.
create or replace function relaybox_internal.end_derivation_trial(
    trial_id_ integer, state_ text, ended_by_ text, reason_ text
)
returns void
language plpgsql volatile
as $$
begin
    perform relaybox_internal.lock_derivation_trial(trial_id_);
    update relaybox_internal.derivation_trial_attempt a set
        state = 'superseded', ended_at = clock_timestamp()
    where a.trial_id = trial_id_ and a.state = 'open';
    delete from relaybox_internal.derivation_trial_message m where m.trial_id = trial_id_;
    update relaybox_internal.derivation_trial t set
        state = state_, ended_at = clock_timestamp(), ended_by = ended_by_,
        reason = left(reason_, 1000)
    where t.trial_id = trial_id_;
end
$$;
