-- Whether a version of a derivation has messages to derive from: new ones, fetched ones that no
-- attempt has published, or redriven dead letters. Changes nothing. Raises RB031 if somebody ended
-- its subscription, and what derivation_start() raises.
create or replace function relaybox_internal.derivation_has_work(
    route_ text, version_ integer, stream_ text, start_ text
)
returns boolean
language plpgsql volatile
as $$
declare
    newest relaybox_internal.derivation := relaybox_internal.newest_derivation(route_);
    subscribed relaybox_internal.subscription;
begin
    if newest.version = version_ then
        subscribed := relaybox_internal.subscription_of_derivation(newest.derivation_id);
        if exists (
            select from relaybox_internal.dead_letter d
            where d.subscription_id = subscribed.subscription_id and d.state = 'redriving'
        ) then
            return true;
        end if;
    end if;
    return relaybox_internal.derivation_start(route_, version_, stream_, start_) <= (
        select s.last_stream_position from relaybox_internal.stream s where s.stream = stream_
    );
end
$$;
