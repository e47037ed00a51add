-- Returns these texts as the arguments of a command in a hint, one word of a POSIX shell each: who
-- copies the command runs nothing else. A text that begins with a hyphen is no option.
create or replace function relaybox_internal.shell_words(variadic words text[]) returns text
language sql immutable
as $$
    select case when bool_or(w.word like '-%') then '-- ' else '' end || string_agg(
        case
            when w.word ~ '^[A-Za-z0-9_.:/@-]+$' then w.word
            else '''' || replace(w.word, '''', $end$'\''$end$) || ''''
        end, ' ' order by w.place
    )
    from unnest(words) with ordinality as w (word, place)
$$;
