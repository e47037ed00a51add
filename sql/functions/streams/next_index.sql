-- Returns the next number of a gapless sender's epoch. The counter row stays locked until the
-- transaction ends: a rollback gives the number back, and numbers are in commit order. So only one
-- transaction of the sender runs at a time (docs/concepts.md has the figure). Raises RB022 (not
-- declared, or sparse), RB023 (a sender of another role).
create or replace function relaybox.next_index(sender text) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
declare
    given bigint;
begin
    perform relaybox_internal.require_sender_role(next_index.sender);
    update relaybox_internal.sender_counter c
    set last_index = c.last_index + 1
    where c.sender = next_index.sender
    returning c.last_index into given;
    -- a later statement than the lock, which new_epoch() takes too
    if given is null or 'gapless' is distinct from (
        select s.kind
        from relaybox_internal.store own_store
        join relaybox_internal.sender_counter c on c.sender = next_index.sender
        join relaybox_internal.sender s
            on s.origin = own_store.store and s.sender = c.sender and s.epoch = c.epoch
    ) then
        raise exception using errcode = 'RB022',
            message = format(
                'sender %s is %s in this store, and only gapless senders have a counter',
                next_index.sender, case when given is null then 'not declared' else 'sparse' end
            ),
            hint = format(
                case
                    when given is null
                        then 'Declare it: select relaybox.declare_sender(%L, ''gapless'')'
                    else 'Begin a gapless epoch: select relaybox.new_epoch(%L, ''gapless'')'
                end,
                next_index.sender
            );
    end if;
    return given;
end
$$;

comment on function relaybox.next_index(text) is
'Returns the next number of a gapless sender: the value for column `index` of relaybox.outbox.
`sender`: its name.
The counter stays locked until the transaction ends: a rollback gives the number back, and other
transactions of the sender wait.
Errors: RB022 (not declared, or sparse), RB023 (the sender is bound to another role).';
