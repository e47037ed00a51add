-- Records why an open attempt of a trial failed. With set_aside the trial goes on after its only
-- message. Does nothing if the attempt has ended already, or if the store was restored to a time
-- before it. Locks the row of the trial. Raises what lock_derivation_trial() raises.
create or replace function relaybox_internal.fail_derivation_trial_attempt(
    trial_id_ integer, attempt_ bigint, token_ text, reason_ text, set_aside boolean
)
returns void
language plpgsql volatile
as $$
declare
    failed relaybox_internal.derivation_trial_attempt;
begin
    perform relaybox_internal.lock_derivation_trial(trial_id_);
    update relaybox_internal.derivation_trial_attempt a set
        state = case
            when set_aside and a.first_stream_position = a.last_stream_position then 'set_aside'
            else 'failed'
        end,
        ended_at = clock_timestamp(), reason = left(reason_, 4000)
    where a.trial_id = trial_id_ and a.attempt = attempt_ and a.token = token_ and a.state = 'open'
    returning * into failed;
    if failed.state = 'set_aside' then
        update relaybox_internal.derivation_trial t set
            done_stream_position = failed.last_stream_position
        where t.trial_id = trial_id_;
    end if;
end
$$;
