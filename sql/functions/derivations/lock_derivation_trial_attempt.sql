-- Locks a trial for one of its attempts until the transaction ends. True: the attempt is open, and
-- the caller inserts its messages. False: another task has. Raises RB036 if the trial has ended, RB035
-- if the attempt has failed or a later one has ended it, or if the token is another one: the store
-- was restored to a time before the attempt.
create or replace function relaybox_internal.lock_derivation_trial_attempt(
    trial_id_ integer, attempt_ bigint, token_ text
)
returns boolean
language plpgsql volatile
as $$
declare
    locked relaybox_internal.derivation_trial_attempt;
begin
    perform relaybox_internal.lock_derivation_trial(trial_id_);
    select * into locked from relaybox_internal.derivation_trial_attempt a
    where a.trial_id = trial_id_ and a.attempt = attempt_;
    if locked.token is distinct from token_ then
        raise exception using errcode = 'RB035',
            message = format(
                'the store does not know this attempt %s of trial %s: it was restored to a time '
                'before the attempt began', attempt_, trial_id_
            ),
            hint = 'Nothing of it was written. The next attempt derives what the store has now.';
    end if;
    if locked.state in ('open', 'done') then
        return locked.state = 'open';
    end if;
    raise exception using errcode = 'RB035',
        message = format(
            'attempt %s of trial %s was ended at %s: it is %s', attempt_, trial_id_,
            locked.ended_at, locked.state
        ),
        hint = 'Nothing of it was written. The newest attempt derives the same messages.';
end
$$;
