-- Records that the caller's transaction sends a partition of a DataFrame, and tells what to do:
-- `send` (insert its messages), `sent` (a committed transaction did; insert nothing), or `wait`:
-- this run has not yet sent, or found sent, the partition before. So a run whose partitions differ
-- from those of an earlier run sends nothing after the first that differs. Of two runs at once the
-- one that was later at a partition goes on, and the other one waits until it has completed the
-- write. Waits for an open transaction of the same partition. Raises RB023 (a sender of another
-- role), RB024 (other messages, or the write is complete without this partition), RB036 (an
-- argument).
create or replace function relaybox.record_partition(
    sender text, write_id text, run uuid, partition integer, content text, message_count bigint
)
returns text
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
declare
    recorded relaybox_internal.frame_partition;
    complete_count bigint;
    is_new boolean;
begin
    set local synchronous_commit = on;
    perform relaybox_internal.require_frame_write(
        record_partition.sender, record_partition.write_id, record_partition.run,
        record_partition.partition, record_partition.message_count
    );
    if octet_length(record_partition.content) between 1 and 100 is not true then
        raise exception using errcode = 'RB036',
            message = 'record_partition takes a content of 1 to 100 bytes',
            hint = 'Give a digest of the messages.';
    end if;
    select p.message_count into complete_count from relaybox_internal.frame_partition p
    where p.sender = record_partition.sender and p.write_id = record_partition.write_id
        and p.partition = -1;
    -- of a complete write nothing is left to send: its partitions are only compared
    if record_partition.partition > 0 and complete_count is null and not exists (
        select from relaybox_internal.frame_partition p
        where p.sender = record_partition.sender and p.write_id = record_partition.write_id
            and p.partition = record_partition.partition - 1 and p.run = record_partition.run
    ) then
        return 'wait';
    end if;
    perform from relaybox_internal.frame_partition p
    where p.sender = record_partition.sender and p.write_id = record_partition.write_id
        and p.partition = record_partition.partition - 1
    for key share; -- complete_write() of another run, with fewer partitions, waits for this one
    insert into relaybox_internal.frame_partition (
        sender, write_id, partition, content, message_count, run
    )
    values (
        record_partition.sender, record_partition.write_id, record_partition.partition,
        record_partition.content, record_partition.message_count, record_partition.run
    )
    on conflict do nothing;
    is_new := found;
    -- a statement of its own: it sees what was committed while the ones above waited
    select p.message_count into complete_count from relaybox_internal.frame_partition p
    where p.sender = record_partition.sender and p.write_id = record_partition.write_id
        and p.partition = -1;
    if record_partition.partition >= complete_count then
        raise exception using errcode = 'RB024',
            message = format(
                'write %s of sender %s is complete with %s partitions; this is partition %s',
                record_partition.write_id, record_partition.sender, complete_count,
                record_partition.partition + 1
            ),
            hint = 'Nothing of it was sent now. Send new messages under another write_id.';
    end if;
    if is_new then
        return 'send';
    end if;
    update relaybox_internal.frame_partition p set run = record_partition.run
    where p.sender = record_partition.sender and p.write_id = record_partition.write_id
        and p.partition = record_partition.partition
    returning p.* into strict recorded;
    if (recorded.content, recorded.message_count)
        is distinct from (record_partition.content, record_partition.message_count)
    then
        raise exception using errcode = 'RB024',
            message = format(
                'partition %s of write %s of sender %s had %s messages at %s with content %s; '
                'these are %s messages with content %s', recorded.partition + 1,
                recorded.write_id, recorded.sender, recorded.message_count, recorded.sent_at,
                left(recorded.content, 12), record_partition.message_count,
                left(record_partition.content, 12)
            ),
            hint = 'Nothing of it and of later partitions was sent now. Write the rows of then again (of a '
                'stream: with the same start and through). Send new messages under another write_id.';
    end if;
    return 'sent';
end
$$;

comment on function relaybox.record_partition(text, text, uuid, integer, text, bigint) is
'For the Spark format relaybox: sends the partitions of a DataFrame once and in their order.
`sender`: who sends. Each sender has its own writes.
`write_id`: names the write, 1 to 400 bytes.
`run`: this run of the write.
`partition`: from 0.
`content`: a digest of the messages, 1 to 100 bytes.
`message_count`: how many they are.
Returns send (insert the messages in this transaction), sent (insert nothing), or wait (ask again:
the partition before has not been sent by this run).
Errors: RB023 (the sender is bound to another role), RB024 (the write has other messages), RB036 (an
argument is invalid).';
