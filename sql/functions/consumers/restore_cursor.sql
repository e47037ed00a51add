-- Puts a lane of a new subscription where it had been in a store that was lost: done through a place. Raises RB031, RB036 (already moved).
create or replace function relaybox.restore_cursor(subscription text, lane_ integer, done_place_ bigint) returns void
language plpgsql volatile
as $$
declare
    known relaybox.subscription := relaybox.subscription_named(restore_cursor.subscription);
    c relaybox.cursor := relaybox.lock_lane(known, lane_);
begin
    if c.version > 1 or done_place_ < c.done_place then
        raise exception using errcode = 'RB036',
            message = format('subscription %s, lane %s has moved since it was made; it is done through place %s', known.subscription, lane_, c.done_place);
    end if;
    if done_place_ > c.done_place then
        c.done_place := done_place_;
        c.fetched_place := done_place_;
        perform relaybox.move_cursor(c);
    end if;
end
$$;
