-- Refuses to go on with an open trial of another version or source, or of a range that was asked for
-- otherwise (both null: none is asked for): RB025.
create or replace function relaybox_internal.refuse_changed_trial(
    route_ text, trial relaybox_internal.derivation_trial, version_ integer, source_name_ text,
    source_digest_ text, start_ text, through_ text
)
returns void
language plpgsql volatile
as $$
declare
    hint_ text := format(
        'Promote it, or drop it: relaybox trials drop %s --reason WHY. Then run this one.', route_
    );
begin
    if (trial.version, trial.source_name, trial.source_digest)
        is distinct from (version_, source_name_, source_digest_)
    then
        raise exception using errcode = 'RB025',
            message = format(
                'trial %s of route %s, open since %s, is of version %s: %s with digest %s; now it is '
                'version %s: %s with digest %s', trial.trial_id, route_, trial.begun_at,
                trial.version, trial.source_name, left(trial.source_digest, 12), version_,
                source_name_, left(source_digest_, 12)
            ),
            hint = hint_;
    end if;
    if num_nonnulls(start_, through_) > 0
        and (start_, through_) is distinct from (trial.asked_start, trial.asked_through)
    then
        raise exception using errcode = 'RB025',
            message = format(
                'trial %s of route %s, open since %s, was asked for the range from %s to %s, and '
                'this run asks for %s to %s', trial.trial_id, route_, trial.begun_at,
                coalesce(trial.asked_start, 'the first'), coalesce(trial.asked_through, 'the last'),
                coalesce(start_, 'the first'), coalesce(through_, 'the last')
            ),
            hint = hint_ || ' Without a range this command goes on with the open trial.';
    end if;
end
$$;
