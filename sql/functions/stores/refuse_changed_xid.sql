-- Refuses to move messages of an outbox whose column xid no longer has its default: a hop finds new
-- messages by the transaction that inserted them, so those sent since would never be moved, while
-- each transfer said that nothing waits. Raises RB009.
create or replace function relaybox_internal.refuse_changed_xid() returns void
language plpgsql stable
as $$
declare
    found constant text := relaybox_internal.xid_default();
begin
    if found = 'pg_current_xact_id()' then
        return;
    end if;
    raise exception using errcode = 'RB009',
        message = format(
            'the default of relaybox.outbox.xid is %s, not pg_current_xact_id(): messages that were sent since it was changed are '
            'never moved', coalesce(left(found, 200), 'missing')
        ),
        hint = 'Run: relaybox init ' || (select s.store from relaybox_internal.store s)
            || '. Messages whose xid is wrong stay behind: docs/doctor.md, A changed default of xid, says how to send them again.';
end
$$;
