-- Gives up a gap of a sender: the messages with these indexes will never come. The messages that
-- waited for them are released in this transaction. first_index: the first one that is missing;
-- last_index: at most the one before the first held one. with_held: the sender's next message is
-- here, has index last_index and waits only for its clock; it is given up and set aside. pinned_epoch:
-- the epoch whose gap was approved; null: the one that the sender is in. Raises RB004 (no such stream
-- here), RB017 (not a gap of this sender, or the sender is not declared), RB036 (no reason, or too long
-- a text), RB043 (the sender is in another epoch than the pinned one).
create or replace function relaybox_internal.skip_gap(
    stream_name text, sender_ text, last_index_ bigint, reason_ text, skipped_by_ text,
    with_held boolean default false, pinned_epoch integer default null,
    out epoch integer, out first_index bigint, out last_index bigint, out released bigint
)
language plpgsql volatile
as $$
declare
    stream_ relaybox_internal.stream;
    input_log relaybox_internal.stream_log;
    state relaybox_internal.sender_state;
begin
    perform relaybox_internal.require_writable_primary();
    perform relaybox_internal.require_reason(
        reason_, 'a gap is given up', 'Say why the messages will never come.'
    );
    perform relaybox_internal.require_length('the name of who skips', skipped_by_, 300);
    set local synchronous_commit = on;
    select s.* into stream_
    from relaybox_internal.stream s where s.stream = stream_name for no key update;
    if not found then
        raise exception using errcode = 'RB004',
            message = format('stream %s is not delivered in this store', stream_name),
            hint = 'Known here: ' || coalesce(
                (
                    select string_agg(s.stream, ', ' order by s.stream)
                    from relaybox_internal.stream s
                ),
                'none'
            ) || '.';
    end if;
    state := relaybox_internal.begin_skipped_sender(stream_, sender_);
    epoch := state.epoch;
    if epoch <> pinned_epoch then
        raise exception using errcode = 'RB043',
            message = format(
                'the gap of sender %s that was approved is of epoch %s, and stream %s of this store '
                'is at epoch %s of the sender', sender_, pinned_epoch, stream_name, epoch
            ),
            hint = 'Nothing was changed. Trigger a new run: it shows the gap of now, and asks again.';
    end if;
    first_index := state.watermark + 1;
    last_index := relaybox_internal.last_index_of_gap(stream_, state, last_index_, with_held);
    insert into relaybox_internal.skip (
        stream_id, sender, epoch, first_index, last_index, reason, skipped_by
    )
    values (
        stream_.stream_id, sender_, epoch, first_index, last_index, reason_, skipped_by_
    );
    -- the watermark passes the gap now: for this decision the skipped causes of clocks are met
    update relaybox_internal.sender_state s
    set skipped = s.skipped + int8multirange(int8range(first_index, skip_gap.last_index, '[]')),
        watermark = skip_gap.last_index
    where s.sender_id = state.sender_id;
    select l.* into input_log
    from relaybox_internal.stream_log l
    where l.stream_id = stream_.stream_id and l.origin = state.origin;
    stream_.recheck := true;
    perform relaybox_internal.deliver_held(stream_, input_log);
    select s.last_stream_position - stream_.last_stream_position into released
    from relaybox_internal.stream s where s.stream_id = stream_.stream_id;
end
$$;
