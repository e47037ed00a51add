-- Begins a new epoch of a sender that lost its counter or that numbers differently from now on.
-- Returns the new epoch, whose first index is 1. Messages of lower epochs that arrive later are
-- refused where they arrive. kind null: as before. Locks the sender's counter, so that next_index()
-- waits for the end of this transaction. Durable before another session can see it. Raises RB021
-- (no such kind), RB022 (not declared), RB023 (a sender of another role).
create or replace function relaybox.new_epoch(sender text, kind text default null) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
declare
    own_origin text := (select s.store from relaybox_internal.store s);
    counter_epoch integer;
    declared relaybox_internal.sender;
begin
    set local synchronous_commit = on;
    perform relaybox_internal.require_sender_role(new_epoch.sender);
    perform relaybox_internal.refuse_trigger() from pg_class o
    where o.oid = 'relaybox.outbox'::regclass and o.relrowsecurity;
    if new_epoch.kind is not null then
        perform relaybox_internal.require_sender_kind(new_epoch.sender, new_epoch.kind);
    end if;
    select c.epoch into counter_epoch
    from relaybox_internal.sender_counter c where c.sender = new_epoch.sender
    for update;
    if not found then
        raise exception using errcode = 'RB022',
            message = format('sender %s is not declared in this store', new_epoch.sender),
            hint = format(
                'Declare it: select relaybox.declare_sender(%L, ''gapless'')', new_epoch.sender
            );
    end if;
    -- a later statement than the lock: it sees the newest committed epoch
    select s.* into declared from relaybox_internal.sender s
    where s.origin = own_origin and s.sender = new_epoch.sender
    order by s.epoch desc
    limit 1;
    insert into relaybox_internal.sender (origin, sender, epoch, kind)
    values (
        own_origin, new_epoch.sender, counter_epoch + 1, coalesce(new_epoch.kind, declared.kind)
    );
    update relaybox_internal.sender_counter c
    set epoch = counter_epoch + 1, last_index = 0
    where c.sender = new_epoch.sender;
    return counter_epoch + 1;
end
$$;

comment on function relaybox.new_epoch(text, text) is
'Begins a new epoch of a declared sender that lost its counter or changes its kind. Its first index
is 1 again.
Messages of lower epochs that arrive after one of the new epoch become dead letters.
`sender`: its name. `kind`: gapless or sparse; null: as before.
Returns the new epoch. next_index() of the sender waits until this transaction ends.
Errors: RB021 (no such kind), RB022 (not declared in this store), RB023 (the sender is bound to
another role).';
