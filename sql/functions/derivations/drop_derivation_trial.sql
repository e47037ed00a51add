-- Drops a trial: ends it and deletes its messages. False: it was dropped already. Locks the row of the
-- trial. Raises RB036 if it was promoted, and what end_derivation_trial() raises.
create or replace function relaybox_internal.drop_derivation_trial(
    trial_id_ integer, dropped_by_ text, reason_ text
)
returns boolean
language plpgsql volatile
as $$
begin
    perform from relaybox_internal.derivation_trial t
    where t.trial_id = trial_id_ for no key update;
    if exists (
        select from relaybox_internal.derivation_trial t
        where t.trial_id = trial_id_ and t.state = 'dropped'
    ) then
        return false;
    end if;
    perform relaybox_internal.end_derivation_trial(trial_id_, 'dropped', dropped_by_, reason_);
    return true;
end
$$;
