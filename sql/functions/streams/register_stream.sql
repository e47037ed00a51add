-- Makes a stream read the log of a hop that arrives here, or brings the stream's limits up to date.
-- Idempotent; returns registered, changed or unchanged. After a change the next decision checks the
-- senders that had stalled at a limit. Called by init, after register_hop_in(). Locks the stream's
-- row, then writes stream_log. Raises RB004 (no such hop), RB006 (what was decided already would
-- get another order, stream, origin or window).
create or replace function relaybox_internal.register_stream(
    hop_name text, stream_name text, origin_ text, order_ text, message_id_window_ bigint,
    holdback_rows_ bigint, fragments_ bigint
)
returns text
language plpgsql volatile
as $$
declare
    log_id_ constant integer := (
        select i.log_id from relaybox_internal.hop_in i where i.hop = hop_name
    );
    log relaybox_internal.stream_log;
    stream_ relaybox_internal.stream;
begin
    if log_id_ is null then
        raise exception using errcode = 'RB004',
            message = format('hop %s does not arrive in this store', hop_name),
            hint = 'Run: relaybox init';
    end if;
    insert into relaybox_internal.stream (
        stream, delivery_order, message_id_window, holdback_rows, fragments
    )
    select stream_name, order_, message_id_window_, holdback_rows_, fragments_
    -- an insert that conflicts uses up a number all the same
    where not exists (select from relaybox_internal.stream s where s.stream = stream_name)
    on conflict (stream) do nothing;
    select * into stream_
    from relaybox_internal.stream s where s.stream = stream_name for no key update;
    select * into log from relaybox_internal.stream_log l where l.log_id = log_id_;
    perform relaybox_internal.refuse_other_rules(
        hop_name, stream_, log, origin_, order_, message_id_window_
    );
    perform relaybox_internal.refuse_second_log(hop_name, stream_, log_id_, order_);
    if (log.stream_id, log.origin) = (stream_.stream_id, origin_)
        and (
            stream_.delivery_order, stream_.message_id_window, stream_.holdback_rows,
            stream_.fragments
        ) = (order_, message_id_window_, holdback_rows_, fragments_)
    then
        return 'unchanged';
    end if;
    update relaybox_internal.stream s
    set delivery_order = order_, message_id_window = message_id_window_,
        holdback_rows = holdback_rows_, fragments = fragments_, recheck = s.arrival_seq > 0
    where s.stream_id = stream_.stream_id;
    insert into relaybox_internal.stream_log (log_id, stream_id, origin)
    values (log_id_, stream_.stream_id, origin_)
    on conflict (log_id) do update set stream_id = excluded.stream_id, origin = excluded.origin;
    perform relaybox_internal.remove_unused_stream(log.stream_id);
    return case when log.log_id is null then 'registered' else 'changed' end;
end
$$;
