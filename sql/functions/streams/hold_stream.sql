-- Stops the stream that reads a hop's log from deciding, until init has changed its rules in all
-- its stores or has taken the change back. Called by init, which commits this in every store before
-- it changes the rules in one. Locks the stream's row. Raises RB006 if the stream has decided
-- meanwhile: its rules stay.
create or replace function relaybox_internal.hold_stream(hop_name text) returns void
language plpgsql volatile
as $$
declare
    stream relaybox_internal.stream;
begin
    select s.* into stream
    from relaybox_internal.stream s
    where s.stream_id = (
        select l.stream_id
        from relaybox_internal.stream_log l join relaybox_internal.hop_in i using (log_id)
        where i.hop = hop_name
    )
    for no key update;
    if stream.arrival_seq > 0 then
        raise exception using errcode = 'RB006',
            message = format(
                'stream %s began to deliver while init was checking the stores', stream.stream
            ),
            hint = 'What a stream decided keeps its rules for ever. '
                'Give the changed route a new name, and no stream of another.';
    end if;
    update relaybox_internal.stream s set rules_pending = true where s.stream_id = stream.stream_id;
end
$$;
