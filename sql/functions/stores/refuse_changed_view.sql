-- Refuses to move messages of an outbox whose view sent_rows is not as init made it: with a
-- condition it hides messages, and each transfer would pass them by and say that nothing waits. Two
-- looks, because an init may replace the view between the reading of its record and of its text.
-- Reads one row of the record, unless another version of Postgres wrote it. Raises RB009.
create or replace function relaybox_internal.refuse_changed_view() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
declare
    is_changed boolean;
begin
    for look in 1 .. 2 loop
        select o.definition is distinct from md5(concat_ws(
            e'\n', pg_get_viewdef(c.oid), array(select unnest(c.reloptions) order by 1)::text
        ))
        into is_changed
        from relaybox_internal.installed_object o
        join pg_class c on c.oid = to_regclass(o.identity) and c.relkind = 'v'
        where o.identity = 'relaybox_internal.sent_rows' and o.definition is not null
            and o.made_on = current_setting('server_version_num')::integer / 10000;
        if is_changed is not true then
            return;
        end if;
    end loop;
    raise exception using errcode = 'RB009',
        message = 'the view relaybox_internal.sent_rows is not as init made it: messages that it hides are never moved',
        hint = 'Run: relaybox init ' || (select s.store from relaybox_internal.store s)
            || '. relaybox verify names messages that were passed by meanwhile: docs/doctor.md, A changed default of xid, says how to '
            'send them again.';
end
$$;
