-- Has a stream read the log of a hop that arrives here, or brings its limits up to date. Idempotent; returns registered, changed
-- or unchanged. After a change the next decision looks at the senders that had stalled at a limit.
-- Caller: init, after register_hop_in. Locks the stream's row, then writes stream_log.
-- Raises RB004 (no such hop), RB006 when what was decided already would get another order, stream, origin or window.
create or replace function relaybox_internal.register_stream(
    hop_name text, stream_name text, origin_ text, order_ text, message_id_window_ bigint, holdback_rows_ bigint, fragments_ bigint
)
returns text
language plpgsql volatile
as $$
declare
    hint_ constant text := 'What a stream decided keeps its rules for ever. Give the changed route a new name, and no stream of another.';
    log_id_ integer := (select i.log_id from relaybox_internal.hop_in i where i.hop = hop_name);
    log relaybox_internal.stream_log;
    stream_ relaybox_internal.stream;
    other text;
begin
    if log_id_ is null then
        raise exception using errcode = 'RB004', message = format('hop %s does not arrive in this store', hop_name), hint = 'Run: relaybox init';
    end if;
    insert into relaybox_internal.stream (stream, delivery_order, message_id_window, holdback_rows, fragments)
    values (stream_name, order_, message_id_window_, holdback_rows_, fragments_)
    on conflict (stream) do nothing;
    select * into stream_ from relaybox_internal.stream s where s.stream = stream_name for no key update;
    select * into log from relaybox_internal.stream_log l where l.log_id = log_id_;
    if log.decided_batch > 0 and log.stream_id <> stream_.stream_id then
        raise exception using errcode = 'RB006', hint = hint_,
            message = format(
                'hop %s was delivered in stream %s here; the file says %s',
                hop_name, (select s.stream from relaybox_internal.stream s where s.stream_id = log.stream_id), stream_name
            );
    end if;
    if log.decided_batch > 0 and log.origin <> origin_ then
        raise exception using errcode = 'RB006', hint = hint_,
            message = format('hop %s was delivered here from origin %s; the file says %s', hop_name, log.origin, origin_);
    end if;
    if stream_.arrival_seq > 0 and (stream_.delivery_order, stream_.message_id_window) <> (order_, message_id_window_) then
        raise exception using errcode = 'RB006', hint = hint_,
            message = format(
                'stream %s was delivered here with order %s and message_id_window %s; the file says %s and %s',
                stream_name, stream_.delivery_order, stream_.message_id_window, order_, message_id_window_
            );
    end if;
    select i.hop into other
    from relaybox_internal.stream_log l join relaybox_internal.hop_in i using (log_id)
    where l.stream_id = stream_.stream_id and l.log_id <> log_id_ and order_ <> 'causal'
    order by i.hop limit 1;
    if found then
        raise exception using errcode = 'RB006', hint = hint_,
            message = format('stream %s reads the log of hop %s here; only a causal stream can read that of hop %s too', stream_name, other,
            hop_name);
    end if;
    if (log.stream_id, log.origin) = (stream_.stream_id, origin_)
        and (stream_.delivery_order, stream_.message_id_window, stream_.holdback_rows, stream_.fragments)
        = (order_, message_id_window_, holdback_rows_, fragments_)
    then
        return 'unchanged';
    end if;
    update relaybox_internal.stream s
    set delivery_order = order_, message_id_window = message_id_window_, holdback_rows = holdback_rows_, fragments = fragments_,
        recheck = s.arrival_seq > 0
    where s.stream_id = stream_.stream_id;
    insert into relaybox_internal.stream_log (log_id, stream_id, origin) values (log_id_, stream_.stream_id, origin_)
    on conflict (log_id) do update set stream_id = excluded.stream_id, origin = excluded.origin;
    delete from relaybox_internal.stream s
    where s.stream_id = log.stream_id and s.arrival_seq = 0
        and not exists (select from relaybox_internal.stream_log l where l.stream_id = s.stream_id)
        and not exists (select from relaybox_internal.skip k where k.stream_id = s.stream_id)
        and not exists (select from relaybox_internal.subscription n where n.stream_id = s.stream_id);
    return case when log.log_id is null then 'registered' else 'changed' end;
end
$$;
