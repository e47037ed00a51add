-- Begins the version that was tried, as begin_derivation() does: after the last message that the
-- version before has done, or with republish at the first one of the trial. Ends the trial. A trial
-- of this version that is promoted already stays so. Returns the stream position at which the version
-- began, or goes on. Locks the table derivation. Raises RB025 if the version or the source is another
-- one than was tried, RB036 if the trial is not done, was dropped, or has promoted another version,
-- and what begin_derivation() raises.
create or replace function relaybox_internal.promote_derivation_trial(
    trial_id_ integer, version_ integer, source_name_ text, source_digest_ text, republish boolean,
    promoted_by_ text, reason_ text
)
returns bigint
language plpgsql volatile
as $$
declare
    trial relaybox_internal.derivation_trial;
    before relaybox_internal.derivation;
    stream_ text;
begin
    lock table relaybox_internal.derivation in share row exclusive mode;
    select * into trial from relaybox_internal.derivation_trial t where t.trial_id = trial_id_;
    select * into before from relaybox_internal.derivation d
    where d.derivation_id = trial.derivation_id;
    if trial.state = 'promoted' and trial.version = version_ then
        if (trial.source_name, trial.source_digest) is distinct from (source_name_, source_digest_) then
            raise exception using errcode = 'RB025',
                message = format(
                    'version %s of the derivation of route %s was promoted at %s: %s with digest %s; now it '
                    'is %s with digest %s', trial.version, before.route, trial.ended_at,
                    trial.source_name, left(trial.source_digest, 12), source_name_, left(source_digest_, 12)
                ),
                hint = format('Give next version %s, and try it.', trial.version + 1);
        end if;
        return relaybox_internal.derivation_done(d) + 1
        from relaybox_internal.derivation d
        where d.route = before.route and d.version = trial.version;
    end if;
    trial := relaybox_internal.lock_derivation_trial(trial_id_);
    if trial.done_stream_position < trial.last_stream_position then
        raise exception using errcode = 'RB036',
            message = format(
                'trial %s of route %s has derived from stream positions %s to %s only, of %s to %s',
                trial_id_, before.route, trial.first_stream_position, trial.done_stream_position,
                trial.first_stream_position, trial.last_stream_position
            ),
            hint = format('Run relaybox trials run %s, compare again, and promote it then.', before.route);
    end if;
    perform relaybox_internal.refuse_changed_trial(
        before.route, trial, version_, source_name_, source_digest_, null, null
    );
    select s.stream into strict stream_ from relaybox_internal.subscription u
    join relaybox_internal.stream s on s.stream_id = u.stream_id
    where u.subscription_id = before.subscription_id;
    perform relaybox_internal.end_derivation_trial(trial_id_, 'promoted', promoted_by_, reason_);
    return relaybox_internal.derivation_done(relaybox_internal.begin_derivation(
        before.route, trial.version, stream_, trial.source_name, trial.source_digest,
        case when republish then trial.first_stream_position::text end, refuse_change => true
    )) + 1;
end
$$;
