-- The stream position at which a version of a derivation goes on, or would begin. Changes nothing.
-- Raises RB032 for an unknown stream, and what start_stream_position() raises.
create or replace function relaybox_internal.derivation_start(
    route_ text, version_ integer, stream_ text, start_ text
)
returns bigint
language plpgsql volatile
as $$
declare
    newest relaybox_internal.derivation := relaybox_internal.newest_derivation(route_);
    stream relaybox_internal.stream := relaybox_internal.find_stream(stream_, 0);
begin
    if newest.version >= version_ then
        return relaybox_internal.derivation_done(newest) + 1;
    end if;
    return relaybox_internal.start_stream_position(
        stream.stream_id, coalesce(start_, (relaybox_internal.derivation_reached(newest) + 1)::text, 'earliest')
    );
end
$$;
