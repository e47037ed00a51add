-- Records that a run has sent all partitions of a write, or found them sent with the same rows: from
-- now on the write takes no other. Raises RB023 (a sender of another role), RB024 (another run had
-- more partitions), RB036 (an argument).
create or replace function relaybox.complete_write(
    sender text, write_id text, run uuid, partition_count integer
)
returns void
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
declare
    recorded_count bigint;
begin
    set local synchronous_commit = on;
    perform relaybox_internal.require_frame_write(
        complete_write.sender, complete_write.write_id, complete_write.run,
        complete_write.partition_count, 0
    );
    if complete_write.partition_count = 0 then
        -- waits for a run that sends a first partition
        insert into relaybox_internal.frame_partition (
            sender, write_id, partition, content, message_count, run
        )
        values (complete_write.sender, complete_write.write_id, 0, 'none', 0, complete_write.run)
        on conflict do nothing;
        if found then
            delete from relaybox_internal.frame_partition p
            where p.sender = complete_write.sender and p.write_id = complete_write.write_id
                and p.partition = 0;
        end if;
    else
        perform from relaybox_internal.frame_partition p
        where p.sender = complete_write.sender and p.write_id = complete_write.write_id
            and p.partition = complete_write.partition_count - 1
        for update; -- waits for a run that sends the partition after the last one
    end if;
    select count(*) into recorded_count from relaybox_internal.frame_partition p
    where p.sender = complete_write.sender and p.write_id = complete_write.write_id
        and p.partition >= 0;
    -- another run may have taken partitions over since this one found them sent: their rows are the same
    if recorded_count <> complete_write.partition_count then
        raise exception using errcode = 'RB024',
            message = format(
                'write %s of sender %s has %s partitions, this run has %s',
                complete_write.write_id, complete_write.sender, recorded_count,
                complete_write.partition_count
            ),
            hint = 'The partitions that both have are sent once. Send new messages under another '
                'write_id.';
    end if;
    insert into relaybox_internal.frame_partition (
        sender, write_id, partition, content, message_count, run
    )
    values (
        complete_write.sender, complete_write.write_id, -1, 'complete',
        complete_write.partition_count, complete_write.run
    )
    on conflict do nothing;
end
$$;

comment on function relaybox.complete_write(text, text, uuid, integer) is
'For the Spark format relaybox: ends a write whose partitions this run has all sent.
`sender`: who sends. `write_id`: names the write. `run`: this run of the write.
`partition_count`: how many partitions it has.
Errors: RB023 (the sender is bound to another role), RB024 (another run had other partitions),
RB036 (an argument is invalid).';
