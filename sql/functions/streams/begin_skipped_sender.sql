-- Returns the state of the newest epoch of a sender whose gap is given up. If nothing of a declared
-- sender has come, its state is made: other messages may wait for its first ones. Caller holds the
-- stream's row. Raises RB017 (the sender is not declared).
create or replace function relaybox_internal.begin_skipped_sender(
    stream_ relaybox_internal.stream, sender_ text
)
returns relaybox_internal.sender_state
language plpgsql volatile
as $$
declare
    state relaybox_internal.sender_state;
begin
    insert into relaybox_internal.sender_state (stream_id, sender, epoch, origin, kind)
    select stream_.stream_id, d.sender, d.epoch, d.origin, d.kind
    from relaybox_internal.sender d
    join relaybox_internal.stream_log l
        on l.stream_id = stream_.stream_id and l.origin = d.origin
    where d.sender = sender_ and not exists (
        select from relaybox_internal.sender_state s
        where s.stream_id = stream_.stream_id and s.sender = sender_
    )
    order by d.epoch desc limit 1;
    select s.* into state
    from relaybox_internal.sender_state s
    where s.stream_id = stream_.stream_id and s.sender = sender_
    order by s.begun_at is not null desc, s.epoch desc limit 1;
    if not found then
        raise exception using errcode = 'RB017',
            message = format(
                'stream %s has nothing with an index of its own from sender %s',
                stream_.stream, sender_
            ),
            hint = 'Skip only what is missing: see relaybox holdback.';
    end if;
    return state;
end
$$;
