-- Locks the row of an open trial until the transaction ends, before all that is of it. Raises RB035
-- if it has ended, or if the store does not know it.
create or replace function relaybox_internal.lock_derivation_trial(trial_id_ integer)
returns relaybox_internal.derivation_trial
language plpgsql volatile
as $$
declare
    locked relaybox_internal.derivation_trial;
begin
    select * into locked from relaybox_internal.derivation_trial t
    where t.trial_id = trial_id_ for no key update;
    if locked.state is distinct from 'open' then
        raise exception using errcode = 'RB035',
            message = case
                when locked.state is null then format('the store does not know trial %s', trial_id_)
                else format(
                    'trial %s was %s at %s by %s: %s', trial_id_, locked.state, locked.ended_at,
                    locked.ended_by, locked.reason
                )
            end,
            hint = 'relaybox trials run ROUTE begins another one.';
    end if;
    return locked;
end
$$;
