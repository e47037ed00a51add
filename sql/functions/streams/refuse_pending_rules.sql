-- Raises RB007 while an init that changes the rules of the stream has begun and not ended. A store
-- that decided by the former rules while another one has the new ones could neither finish the init
-- nor take it back.
create or replace function relaybox_internal.refuse_pending_rules(stream relaybox_internal.stream)
returns void
language plpgsql immutable
as $$
begin
    if stream.rules_pending then
        raise exception using errcode = 'RB007',
            message = format(
                'stream %s delivers nothing: '
                'relaybox init began to change its rules in all its stores, and has not ended',
                stream.stream
            ),
            hint = 'Run: relaybox init';
    end if;
end
$$;
