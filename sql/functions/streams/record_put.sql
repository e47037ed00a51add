-- Records that the messages of this key are sent by the caller's transaction, and tells whether to
-- insert them: false if a committed transaction did. Durable when the transaction has committed.
-- Waits for an open transaction of the same key. Raises RB023 (a sender of another role), RB024
-- (other messages under the key), RB036 (an argument).
create or replace function relaybox.record_put(
    sender text, put_key text, content text, message_count integer
)
returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
declare
    recorded relaybox_internal.put;
begin
    set local synchronous_commit = on;
    if
        record_put.put_key is null or octet_length(record_put.put_key) not between 1 and 1000
        or record_put.content is null or octet_length(record_put.content) not between 1 and 100
        or record_put.message_count is null or record_put.message_count < 0
        or record_put.sender is null or record_put.sender !~ '^[A-Za-z0-9_.:-]{1,48}$'
    then
        raise exception using errcode = 'RB036',
            message = 'record_put takes a sender, a put_key of 1 to 1000 bytes, a content of 1 to '
                '100 bytes and a message_count from 0',
            hint = 'Give a digest as content, and of a long key its digest.';
    end if;
    perform relaybox_internal.require_sender_role(record_put.sender);
    perform relaybox_internal.refuse_trigger() from pg_class o
    where o.oid = 'relaybox.outbox'::regclass and o.relrowsecurity;
    perform relaybox_internal.refuse_unlogged();
    insert into relaybox_internal.put (sender, put_key, content, message_count)
    values (
        record_put.sender, record_put.put_key, record_put.content, record_put.message_count
    )
    on conflict do nothing;
    if found then
        return true;
    end if;
    select p.* into strict recorded from relaybox_internal.put p
    where p.sender = record_put.sender and p.put_key = record_put.put_key;
    if (recorded.content, recorded.message_count)
        is distinct from (record_put.content, record_put.message_count)
    then
        raise exception using errcode = 'RB024',
            message = format(
                'put %s of sender %s sent %s messages at %s with content %s; these are %s messages '
                'with content %s', recorded.put_key, recorded.sender, recorded.message_count,
                recorded.put_at, left(recorded.content, 12), record_put.message_count,
                left(record_put.content, 12)
            ),
            hint = 'Nothing was sent now. Send the new messages under another put_key.';
    end if;
    return false;
end
$$;

comment on function relaybox.record_put(text, text, text, integer) is
'Sends messages once, however often a transaction is repeated: call it first, and insert the
messages in the same transaction if it returns true. False: they were sent before; insert nothing.
`sender`: who sends. Each sender has its own keys.
`put_key`: names this put, 1 to 1,000 bytes.
`content`: a digest of the messages, 1 to 100 bytes.
`message_count`: how many they are.
Waits for an open transaction with the same key. Keys are kept for as long as the store exists.
Errors: RB023 (the sender is bound to another role), RB024 (other messages were sent under this
key), RB036 (an argument is invalid).';
