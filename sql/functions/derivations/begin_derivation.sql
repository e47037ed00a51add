-- The derivation of a route at a version, which begins it if the store does not have it: ends the
-- subscription, the open attempt and the open trial of the version before, and subscribes. Without start_ a new
-- version begins after the last message that the one before has done. Dead letters of the version
-- before go to the new one, but for those that it derives from anyway. Locks the table derivation
-- while it begins. Raises RB025 for an older version, another stream, or another source (if
-- refuse_change), and what relaybox.subscribe() raises.
create or replace function relaybox_internal.begin_derivation(
    route_ text, version_ integer, stream_ text, source_name_ text, source_digest_ text,
    start_ text, refuse_change boolean
)
returns relaybox_internal.derivation
language plpgsql volatile
as $$
declare
    newest relaybox_internal.derivation := relaybox_internal.newest_derivation(route_);
    subscribed relaybox_internal.subscription;
    begun relaybox_internal.derivation;
    first_stream_position_ bigint;
    reached bigint; -- the last stream position that the version before has done
    redriving bigint[] := '{}'; -- dead letters of the version before that wait for their derivation
begin
    if newest.version is distinct from version_ then
        lock table relaybox_internal.derivation in share row exclusive mode;
        newest := relaybox_internal.newest_derivation(route_);
    end if;
    if newest.version >= version_ then
        perform relaybox_internal.refuse_changed_derivation(
            newest, version_, stream_, source_name_, source_digest_, refuse_change
        );
        return newest;
    end if;
    if newest.version is not null then
        update relaybox_internal.derivation_attempt a set
            state = 'superseded', ended_at = clock_timestamp()
        where a.derivation_id = newest.derivation_id and a.state = 'open';
        perform relaybox_internal.end_derivation_trial(
            t.trial_id, 'dropped', session_user::text, format('version %s began', version_)
        )
        from relaybox_internal.derivation_trial t
        where t.derivation_id = newest.derivation_id and t.state = 'open';
        select * into strict subscribed from relaybox_internal.subscription s
        where s.subscription_id = newest.subscription_id;
        reached := relaybox_internal.derivation_reached(newest);
        if subscribed.ended_at is null then
            -- in the order of unsubscribe(), which opens them: the next version goes on with them
            perform from relaybox_internal.subscription s
            where s.subscription_id = newest.subscription_id for no key update;
            perform from relaybox_internal.lane l
            where l.subscription_id = newest.subscription_id order by l.lane for update;
            redriving := array(
                select d.dead_letter_id from relaybox_internal.dead_letter d
                where d.subscription_id = newest.subscription_id and d.state = 'redriving'
            );
            perform relaybox.unsubscribe(
                subscribed.subscription,
                format('version %s of the derivation of route %s begins', version_, route_)
            );
        end if;
    end if;
    first_stream_position_ := relaybox.subscribe(
        format('derive.%s.v%s', route_, version_), stream_,
        coalesce(start_, (reached + 1)::text, 'earliest'),
        nack_limit => 1,
        crash_limit => 2147483647, -- an attempt that is killed says nothing about its messages
        delayed => 'ignore' -- derived messages have headers of their own
    );
    insert into relaybox_internal.derivation (
        route, version, subscription_id, source_name, source_digest
    )
    select route_, version_, s.subscription_id, source_name_, source_digest_
    from relaybox_internal.subscription s
    where s.subscription = format('derive.%s.v%s', route_, version_) and s.ended_at is null
    returning * into strict begun;
    if newest.version is not null then
        perform relaybox_internal.take_over_dead_letters(
            newest.subscription_id, begun.subscription_id, first_stream_position_,
            redriving, format('version %s of the derivation of route %s', version_, route_)
        );
    end if;
    return begun;
end
$$;
