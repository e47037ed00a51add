-- Raises RB006 if a log that a stream has decided on would change to another stream or origin, or
-- if a stream that has delivered would change to another order or window. Caller holds the stream's
-- row.
create or replace function relaybox_internal.refuse_other_rules(
    hop_name text, stream_ relaybox_internal.stream, log relaybox_internal.stream_log, origin_ text,
    order_ text, message_id_window_ bigint
)
returns void
language plpgsql stable
as $$
declare
    what_to_do constant text := 'What a stream decided keeps its rules for ever. '
        'Give the changed route a new name, and no stream of another.';
begin
    if log.decided_batch > 0 and log.stream_id <> stream_.stream_id then
        raise exception using errcode = 'RB006', hint = what_to_do,
            message = format(
                'hop %s was delivered in stream %s here; the file says %s', hop_name,
                (select s.stream from relaybox_internal.stream s where s.stream_id = log.stream_id),
                stream_.stream
            );
    end if;
    if log.decided_batch > 0 and log.origin <> origin_ then
        raise exception using errcode = 'RB006', hint = what_to_do,
            message = format(
                'hop %s was delivered here from origin %s; the file says %s',
                hop_name, log.origin, origin_
            );
    end if;
    if stream_.arrival_seq > 0
        and (stream_.delivery_order, stream_.message_id_window) <> (order_, message_id_window_)
    then
        raise exception using errcode = 'RB006', hint = what_to_do,
            message = format(
                'stream %s was delivered here with order %s and message_id_window %s; '
                'the file says %s and %s', stream_.stream, stream_.delivery_order,
                stream_.message_id_window, order_, message_id_window_
            );
    end if;
end
$$;
