-- Source: raises RB001 on a standby, which may lag behind the plan. Raises RB018 if this is not the
-- store with this store_id, or if its ledger has not got the plan whose slices are to be read: the
-- connection leads to another database, or to another copy of the store (promoted, restored,
-- branched), than the driver's. A copy that has the plan has every row of the plan: they were
-- committed before it.
create or replace function relaybox_internal.require_plan(
    store_id_ uuid, hop_name text, batch_ bigint, plan_id_ uuid
)
returns void
language plpgsql volatile
as $$
begin
    perform relaybox_internal.require_writable_primary();
    perform relaybox_internal.require_store(store_id_);
    if not exists (
        select from relaybox_internal.batch b
        where b.hop = hop_name and b.batch = batch_ and b.plan_id = plan_id_
    ) then
        raise exception using errcode = 'RB018',
            message = format(
                '%s has no plan %s of batch %s of hop %s here, although the driver recorded it: '
                'the connection leads to another copy of the store, or the store went back in time',
                (select s.store from relaybox_internal.store s), plan_id_, batch_, hop_name
            ),
            hint = format(
                'Nothing was copied. If the store was promoted, restored or branched, run the hop '
                'again. Else correct the connection of store %s, for the driver and for its Spark '
                'workers.', (select s.store from relaybox_internal.store s)
            );
    end if;
end
$$;
