-- Refuses what somebody does without saying why: RB036. `said` is what is done, `hint_` how it is called with a reason.
create or replace function relaybox.require_reason(reason text, said text, hint_ text) returns void
language plpgsql stable
as $$
begin
    if coalesce(btrim(reason), '') = '' then
        raise exception using errcode = 'RB036', message = said || ' with a reason', hint = hint_;
    end if;
end
$$;
