-- Refuses a rate that reads nothing: RB036. Null: there is no limit.
create or replace function relaybox_internal.require_rate(rows_per_second integer) returns void
language plpgsql immutable
as $$
begin
    if rows_per_second < 1 then
        raise exception using errcode = 'RB036',
            message = format('rows_per_second is %s, it must be 1 or more', rows_per_second),
            hint = 'Leave it out, or give null, to read without a limit.';
    end if;
end
$$;
