-- Refuses to read no message at all: RB036.
create or replace function relaybox_internal.require_count(max_count bigint) returns void
language plpgsql immutable
as $$
begin
    if max_count is null or max_count < 1 then
        raise exception using errcode = 'RB036',
            message = format(
                'max_count is %s, it must be 1 or more', coalesce(max_count::text, 'null')
            );
    end if;
end
$$;
