-- Returns the first of the next `index_count` numbers of a gapless sender's epoch. The counter row
-- stays locked until the transaction ends: a rollback gives the numbers back, and numbers are in
-- commit order. So only one transaction of the sender runs at a time (docs/concepts.md has the
-- figure). Raises RB022 (not declared, or sparse), RB023 (a sender of another role), RB036 (a count
-- below 1).
create or replace function relaybox.next_indexes(sender text, index_count integer) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
declare
    last_given bigint;
begin
    if next_indexes.index_count is null or next_indexes.index_count < 1 then
        raise exception using errcode = 'RB036',
            message = format(
                'next_indexes gives 1 index or more, not %s',
                coalesce(next_indexes.index_count::text, 'null')
            ),
            hint = 'Give the number of messages that you insert.';
    end if;
    perform relaybox_internal.require_sender_role(next_indexes.sender);
    update relaybox_internal.sender_counter c
    set last_index = c.last_index + next_indexes.index_count
    where c.sender = next_indexes.sender
    returning c.last_index into last_given;
    -- a later statement than the lock, which new_epoch() takes too
    if last_given is null or 'gapless' is distinct from (
        select s.kind
        from relaybox_internal.store own_store
        join relaybox_internal.sender_counter c on c.sender = next_indexes.sender
        join relaybox_internal.sender s
            on s.origin = own_store.store and s.sender = c.sender and s.epoch = c.epoch
    ) then
        raise exception using errcode = 'RB022',
            message = format(
                'sender %s is %s in this store, and only gapless senders have a counter',
                next_indexes.sender,
                case when last_given is null then 'not declared' else 'sparse' end
            ),
            hint = format(
                case
                    when last_given is null
                        then 'Declare it: select relaybox.declare_sender(%L, ''gapless'')'
                    else 'Begin a gapless epoch: select relaybox.new_epoch(%L, ''gapless'')'
                end,
                next_indexes.sender
            );
    end if;
    return last_given - next_indexes.index_count + 1;
end
$$;

comment on function relaybox.next_indexes(text, integer) is
'Takes several numbers of a gapless sender at once and returns the first: the values for column
`index` of relaybox.outbox are this one and those that follow.
`sender`: its name.
`index_count`: how many, from 1. Insert as many messages: a number without a message is a gap.
The counter stays locked until the transaction ends: a rollback gives the numbers back, and other
transactions of the sender wait.
Errors: RB022 (not declared, or sparse), RB023 (the sender is bound to another role), RB036 (a count
below 1).';
