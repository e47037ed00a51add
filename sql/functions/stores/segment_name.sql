-- The name of a segment: of the outbox ('outbox') or of a log ('log_1'), by its number. Six digits, or as many as the number has.
create or replace function relaybox_internal.segment_name(parent text, number bigint) returns text
language sql immutable
as $$
    select format('%s_s%s', parent, lpad(number::text, greatest(6, length(number::text)), '0'))
$$;
