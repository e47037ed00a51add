-- Makes the session hear when a subscription may have something to fetch. Takes effect when the
-- caller's transaction commits. Changes nothing else.
create or replace function relaybox.listen(subscription text)
returns text
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
declare
    channel text := relaybox_internal.channel_of((relaybox_internal.subscription_named(
        "listen".subscription, is_reading => true
    )).stream_id);
begin
    execute format('listen %I', channel);
    return channel;
end
$$;

comment on function relaybox.listen(text) is
'Lets this session be notified when a subscription may have something to fetch: LISTEN on the channel
of its stream. When a fetch gave nothing: call it, commit, then wait for a notification, at most for
rest_seconds(). A session that listens already listens once. It is a hint: look by yourself too.
Behind a pooler nothing is heard.
`subscription`: its name.
Returns the channel, another one if the subscription ended and began again on another stream. Each
delivery of a batch notifies it, and each redrive, replay and release.
Errors: RB031 (not subscribed), RB040 (bound to other roles).';
