-- Refuses the replay of a replay, and an end without a second cursor: RB036.
create or replace function relaybox_internal.require_replay_form(
    subscription_ relaybox_internal.subscription, through text, second_cursor boolean
)
returns void
language plpgsql stable
as $$
begin
    if subscription_.replay_of is not null then
        raise exception using errcode = 'RB036', message = 'a replay is not replayed',
            hint = 'Replay the subscription itself.';
    end if;
    if through is not null and not second_cursor then
        raise exception using errcode = 'RB036',
            message = 'only a replay with a second cursor has an end',
            hint = 'Give second_cursor => true (relaybox replay: --second-cursor), or no end.';
    end if;
end
$$;
