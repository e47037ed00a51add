-- Raises RB021 if a sender's name or kind cannot be declared.
create or replace function relaybox_internal.require_sender_kind(sender_ text, kind_ text)
returns void
language plpgsql immutable
as $$
begin
    if kind_ = 'assigned' then
        raise exception using errcode = 'RB021',
            message = format(
                'sender %s: assigned is not declared, it is what every undeclared sender is',
                sender_
            ),
            hint = 'Insert its messages without an index; '
                'they are numbered by their position in the first log.';
    end if;
    if kind_ is null or kind_ not in ('gapless', 'sparse') then
        raise exception using errcode = 'RB021',
            message = format('sender %s: there is no kind %s', sender_, coalesce(kind_, 'null')),
            hint = 'Known: gapless (1, 2, 3 ... each once), sparse (any order, repeats possible).';
    end if;
    if sender_ is null or sender_ !~ '^[A-Za-z0-9_.:-]{1,48}$' then
        raise exception using errcode = 'RB021',
            message = format(
                '%s is no name of a sender', coalesce(quote_literal(left(sender_, 60)), 'null')
            ),
            hint = 'A sender is 1 to 48 of A-Z a-z 0-9 _ . : -';
    end if;
end
$$;
