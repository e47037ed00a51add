-- Raises RB006 for a hop that was retired: messages that it had not moved may be gone.
create or replace function relaybox_internal.refuse_retired_hop(hop_ relaybox_internal.hop_out)
returns void
language plpgsql stable
as $$
begin
    if hop_.retired_at is not null then
        raise exception using errcode = 'RB006',
            message = format(
                'hop %s was retired by %s on %s: %s', hop_.hop, hop_.retired_by,
                to_char(hop_.retired_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS UTC'),
                hop_.retired_reason
            ),
            hint = 'Its undelivered messages were discarded. Give the route a new name.';
    end if;
end
$$;
