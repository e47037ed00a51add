-- The name of the worker that fetches: as the caller gives it, else this transaction, which no other
-- client can be, also behind a pooler whose clients share sessions. Raises RB036 for a name that is
-- empty, longer than 300 characters, or that of a transaction.
create or replace function relaybox_internal.worker_name(given text) returns text
language plpgsql volatile
as $$
begin
    if given is null then
        return 'transaction ' || pg_current_xact_id()::text;
    end if;
    if given = '' then
        raise exception using errcode = 'RB036', message = 'the name of the worker is empty',
            hint = 'Give each process a name of its own, '
                || 'or leave it out: then the worker is the transaction.';
    end if;
    if given ~ '^transaction [0-9]+$' then
        raise exception using errcode = 'RB036',
            message = format('the name of the worker is that of a transaction: %s', left(given, 60)),
            hint = 'Give each process a name of its own. '
                || 'The store uses these names for workers that give none.';
    end if;
    perform relaybox_internal.require_length('the name of the worker', given, 300);
    return given;
end
$$;
