-- Locks an attempt until the transaction ends. True: it is open, and the caller publishes it.
-- False: another task has published it. Raises RB035 if it has failed, if a later attempt or version
-- has ended it, if retention has removed its record, or if the token is another one: the store was
-- restored to a time before the attempt of the caller, and has begun one with the same number since.
create or replace function relaybox_internal.lock_derivation_attempt(
    derivation_id_ integer, attempt_ bigint, token_ text
)
returns boolean
language plpgsql volatile
as $$
declare
    locked relaybox_internal.derivation_attempt;
begin
    select * into locked from relaybox_internal.derivation_attempt a
    where a.derivation_id = derivation_id_ and a.attempt = attempt_
    for no key update;
    if locked.attempt is null and exists (
        select from relaybox_internal.derivation_attempt a
        where a.derivation_id = derivation_id_ and a.attempt > attempt_
    ) then
        raise exception using errcode = 'RB035',
            message = format(
                'attempt %s of derivation %s has ended, and retention has removed its record', attempt_, (
                    select format('%s, version %s', d.route, d.version)
                    from relaybox_internal.derivation d where d.derivation_id = derivation_id_
                )
            ),
            hint = 'This task sends nothing. Later attempts derive what is left.';
    end if;
    if locked.token is distinct from token_ then
        raise exception using errcode = 'RB035',
            message = format(
                'the store does not know this attempt %s of derivation %s: it was restored to a '
                'time before the attempt began', attempt_, derivation_id_
            ),
            hint = 'Nothing of it was published. The next attempt derives what the store has now.';
    end if;
    if locked.state in ('open', 'published') then
        return locked.state = 'open';
    end if;
    raise exception using errcode = 'RB035',
        message = format(
            'attempt %s of derivation %s was ended at %s: it is %s', attempt_, (
                select format('%s, version %s', d.route, d.version)
                from relaybox_internal.derivation d where d.derivation_id = derivation_id_
            ), locked.ended_at, locked.state
        ),
        hint = 'Nothing of it was published. The newest attempt derives the same messages.';
end
$$;
