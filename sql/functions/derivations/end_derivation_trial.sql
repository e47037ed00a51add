-- Ends an open trial and deletes its messages, which are data. Locks the row of the trial. Raises RB036
-- without a reason, and what lock_derivation_trial() raises.
create or replace function relaybox_internal.end_derivation_trial(
    trial_id_ integer, state_ text, ended_by_ text, reason_ text
)
returns void
language plpgsql volatile
as $$
begin
    perform relaybox_internal.require_reason(
        reason_, 'a trial is promoted or dropped', 'relaybox trials drop ROUTE --reason WHY'
    );
    perform relaybox_internal.lock_derivation_trial(trial_id_);
    update relaybox_internal.derivation_trial_attempt a set
        state = 'superseded', ended_at = clock_timestamp()
    where a.trial_id = trial_id_ and a.state = 'open';
    delete from relaybox_internal.derivation_trial_message m where m.trial_id = trial_id_;
    update relaybox_internal.derivation_trial t set
        state = state_, ended_at = clock_timestamp(), ended_by = ended_by_,
        reason = reason_
    where t.trial_id = trial_id_;
end
$$;
