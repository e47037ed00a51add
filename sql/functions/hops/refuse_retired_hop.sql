-- Raises RB006 for a hop that was retired: what it had not moved may be gone.
create or replace function relaybox.refuse_retired_hop(known relaybox.hop_out) returns void
language plpgsql stable
as $$
begin
    if known.retired_at is not null then
        raise exception using errcode = 'RB006',
            message = format(
                'hop %s was retired by %s on %s: %s', known.hop, known.retired_by,
                to_char(known.retired_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS UTC'), known.retired_reason
            ),
            hint = 'Nobody kept its messages. Give the route a new name.';
    end if;
end
$$;
