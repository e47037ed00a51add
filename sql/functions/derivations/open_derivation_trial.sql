-- The open trial of a route; null: it has none.
create or replace function relaybox_internal.open_derivation_trial(route_ text)
returns relaybox_internal.derivation_trial
language sql volatile
as $$
    select t.* from relaybox_internal.derivation_trial t
    join relaybox_internal.derivation d on d.derivation_id = t.derivation_id
    where d.route = route_ and t.state = 'open'
$$;
