-- Refuses what somebody does without saying why, or with a reason of more than 4000 characters:
-- RB036. `said` is what is done, `hint_` how it is called with a reason.
create or replace function relaybox_internal.require_reason(reason text, said text, hint_ text) returns void
language plpgsql stable
as $$
begin
    if coalesce(btrim(reason), '') = '' then
        raise exception using errcode = 'RB036', message = said || ' with a reason', hint = hint_;
    end if;
    perform relaybox_internal.require_length('the reason', reason, 4000);
end
$$;
