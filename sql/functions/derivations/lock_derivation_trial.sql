-- Locks the row of an open trial until the transaction ends, before all that is of it. Raises RB036
-- if it has ended, RB035 if the store does not know it: it was restored to a time before.
create or replace function relaybox_internal.lock_derivation_trial(trial_id_ integer)
returns relaybox_internal.derivation_trial
language plpgsql volatile
as $$
declare
    locked relaybox_internal.derivation_trial;
    route_ text;
begin
    select * into locked from relaybox_internal.derivation_trial t
    where t.trial_id = trial_id_ for no key update;
    if locked.state is distinct from 'open' then
        select d.route into route_ from relaybox_internal.derivation d
        where d.derivation_id = locked.derivation_id;
        raise exception using errcode = case when locked.state is null then 'RB035' else 'RB036' end,
            message = case
                when locked.state is null then format('the store does not know trial %s', trial_id_)
                else format(
                    'trial %s of version %s of route %s was %s at %s by %s: %s', trial_id_,
                    locked.version, route_, locked.state, locked.ended_at, locked.ended_by, locked.reason
                )
            end,
            hint = format('relaybox trials run %s begins another one.', coalesce(route_, 'ROUTE'));
    end if;
    return locked;
end
$$;
