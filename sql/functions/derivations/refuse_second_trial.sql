-- Refuses a run whose newest trial of the route has ended: a run that is cleared or retried after its
-- trial was dropped neither begins another one nor goes on with that of another run. RB036.
create or replace function relaybox_internal.refuse_second_trial(route_ text, begun_by_ text)
returns void
language plpgsql volatile
as $$
declare
    newest relaybox_internal.derivation_trial;
begin
    select t.* into newest from relaybox_internal.derivation_trial t
    join relaybox_internal.derivation d on d.derivation_id = t.derivation_id
    where d.route = route_ and (t.begun_by = begun_by_ or exists (
        select from relaybox_internal.derivation_trial_attempt a
        where a.trial_id = t.trial_id and a.begun_by = begun_by_
    ))
    order by t.trial_id desc
    limit 1;
    if newest.state <> 'open' then
        raise exception using errcode = 'RB036',
            message = format(
                'trial %s of version %s of route %s was %s at %s by %s: %s. This run (%s) worked on '
                'it, and a run begins one trial', newest.trial_id, newest.version, route_, newest.state,
                newest.ended_at, newest.ended_by, newest.reason, begun_by_
            ),
            hint = format(
                'To try again, trigger the DAG relaybox_promote__%s anew, or run relaybox trials run %s.',
                route_, route_
            );
    end if;
end
$$;
