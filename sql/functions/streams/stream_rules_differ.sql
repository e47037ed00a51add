-- Returns whether the stream, origin or rules of a hop that arrives here differ from the file.
-- False for a hop that is not registered.
create or replace function relaybox_internal.stream_rules_differ(
    hop_name text, stream_name text, origin_ text, order_ text, message_id_window_ bigint
)
returns boolean
language sql stable
as $$
    select exists (
        select from relaybox_internal.hop_in i
        join relaybox_internal.stream_log l on l.log_id = i.log_id
        join relaybox_internal.stream s on s.stream_id = l.stream_id
        where i.hop = hop_name
            and (
                s.stream, l.origin, s.delivery_order, s.message_id_window
            ) is distinct from (stream_name, origin_, order_, message_id_window_)
    )
$$;
