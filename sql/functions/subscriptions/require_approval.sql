-- Raises RB042 if messages are given again only after an approval here, and the caller is neither a
-- driver nor the owner: an approval is given in Airflow, whose tasks are drivers. what: of the
-- caller, as in `redrive dead letters of subscription billing`. kind: of the DAG.
create or replace function relaybox_internal.require_approval(what text, kind text) returns void
language plpgsql stable
as $$
declare
    caller_ name;
begin
    select c.caller into caller_ from relaybox_internal.acting_role c where c.needs_approval;
    if not found then
        return;
    end if;
    raise exception using errcode = 'RB042',
        message = format('role %s may not %s without an approval', caller_, what),
        hint = format(
            'In this store messages are given again only after an approval. In Airflow, trigger '
            'the DAG relaybox_%s__ROUTE, whose run asks for it. The owner of the store needs none.',
            kind
        );
end
$$;
