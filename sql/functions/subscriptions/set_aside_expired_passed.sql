-- Sets aside the passed messages of a locked lane that are to be given and have expired, by this
-- server's clock: dead letters of the reason `expired`. Writes their rows, not the cursor.
create or replace function relaybox_internal.set_aside_expired_passed(
    cursor_ relaybox_internal.cursor, asked_at timestamptz
)
returns void
language plpgsql volatile
as $$
declare
    passed record;
begin
    for passed in
        select d.dead_letter_id, d.log_id, d.log_position
        from relaybox_internal.dead_letter d
        where d.subscription_id = cursor_.subscription_id and d.lane = cursor_.lane
            and d.state = 'redriving' and d.reason = 'delayed'
    loop
        update relaybox_internal.dead_letter d set
            state = 'open', reason = 'expired', last_at = asked_at,
            detail = format('expired at %s', relaybox_internal.expires_at(m.headers))
        from relaybox_internal.log m
        where d.dead_letter_id = passed.dead_letter_id and m.log_id = passed.log_id
            and m.log_position = passed.log_position
            and relaybox_internal.expires_at(m.headers) <= asked_at;
    end loop;
end
$$;
