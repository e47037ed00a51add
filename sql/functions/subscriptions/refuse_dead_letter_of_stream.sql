-- Says why a dead letter of a stream can't be redriven, and what to do instead; nothing if it is a
-- subscription's. Raises RB037.
create or replace function relaybox_internal.refuse_dead_letter_of_stream(dead_letter_id bigint) returns void
language plpgsql stable
as $$
declare
    found_ record;
    again text;
begin
    select d.dead_letter_id, s.stream, d.reason, g.origin, l.sender, l.epoch, l.index into found_
    from relaybox_internal.dead_letter d
    join relaybox_internal.stream s on s.stream_id = d.stream_id
    join relaybox_internal.stream_log g on g.log_id = d.log_id
    left join relaybox_internal.log l on l.log_id = d.log_id and l.log_position = d.log_position
    where d.dead_letter_id = refuse_dead_letter_of_stream.dead_letter_id and d.subscription_id is null;
    if not found then
        return;
    end if;
    again := case
        when found_.reason in ('sender_not_declared',
        'epoch_not_begun') then format('declare it (relaybox senders declare %s), then send the message again with the same index', relaybox_internal.shell_words(found_.origin, found_.sender, 'gapless'))
        when found_.reason = 'sender_not_gapless' and found_.epoch = 0 then format('declare it (relaybox senders declare %s), then send the ' ||
            'message again with the sender''s next index', relaybox_internal.shell_words(found_.origin, found_.sender, 'gapless'))
        when found_.reason = 'sender_not_gapless' then format('begin a gapless epoch (relaybox senders new-epoch --kind gapless %s), then ' ||
            'send the message again in it', relaybox_internal.shell_words(found_.origin, found_.sender))
        when found_.reason = 'does_not_conform' then 'correct the payload or the schema, then send the message again with the sender''s ' ||
            'next index'
        when found_.reason = 'index_too_far' then 'send the message again with the same index, once those before it have been sent'
        else 'if it is still wanted, send it again with the sender''s next index'
    end;
    raise exception using errcode = 'RB037',
        message = format(
            'dead letter %s was set aside by stream %s (%s), not by a consumer: every store of the route decided so, and what a stream decided ' ||
                'never changes',
            refuse_dead_letter_of_stream.dead_letter_id, found_.stream, found_.reason
        ),
        hint = format('At %s: %s, as a new message with an id of its own. Then drop this letter: relaybox dead-letters drop %s %s --reason TEXT',
        found_.origin, again, (select s.store from relaybox_internal.store s), refuse_dead_letter_of_stream.dead_letter_id);
end
$$;
