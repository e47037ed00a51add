-- Refuses a text that is longer than what is kept of its kind: RB036. `what` names it.
create or replace function relaybox_internal.require_length(what text, given text, most integer) returns void
language plpgsql immutable
as $$
begin
    if length(given) > most then
        raise exception using errcode = 'RB036', message = format('%s has %s characters, at most %s are kept', what, length(given), most),
            hint = 'Give a shorter one.';
    end if;
end
$$;
