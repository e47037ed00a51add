-- pre: adds constraints to the outbox; code of the previous version meets none of them
-- Headers and clocks that a consumer's language can't read ended every fetch of it. Rows that are here
-- already stay, and consumers of this version read them: then the constraint holds for new rows only.
-- So it does in a store with a large outbox: producers would wait while its rows are read.

alter table relaybox.outbox
add constraint headers_nest_at_most_64_levels check (
    not jsonb_path_exists(
        headers, 'strict $.**{64} ? (@.type() == "object" || @.type() == "array")'
    )
) not valid,
add constraint numbers_in_headers_below_1e308 check (
    not jsonb_path_exists(headers, 'strict $.** ? (@.abs() >= 1e308)')
) not valid,
add constraint clock_nests_at_most_64_levels check (
    not jsonb_path_exists(
        clock, 'strict $.**{64} ? (@.type() == "object" || @.type() == "array")'
    )
) not valid,
add constraint numbers_in_clock_below_1e308 check (
    not jsonb_path_exists(clock, 'strict $.** ? (@.abs() >= 1e308)')
) not valid;

do $$
declare
    added text;
begin
    if (
        select sum(pg_table_size(p.relid)) from pg_partition_tree('relaybox.outbox') p
    ) > 100000000 then
        return;
    end if;
    foreach added in array array[
        'headers_nest_at_most_64_levels',
        'numbers_in_headers_below_1e308',
        'clock_nests_at_most_64_levels',
        'numbers_in_clock_below_1e308'
    ]
    loop
        begin
            execute format('alter table relaybox.outbox validate constraint %I', added);
        exception when check_violation then
            null; -- a row of before breaks it
        end;
    end loop;
end
$$;
