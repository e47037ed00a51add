-- Gives up a gap of a sender: the messages with these indexes will never come. What waited for them is released in this transaction.
-- first_index: the first one that is missing; last_index: at most the one before the first that is held.
-- with_held: the sender's next message is here, has index last_index and waits for its clock alone; it is given up and set aside.
-- Raises RB004 (no such stream here), RB017 (not a gap of this sender, or nobody declared it), RB036 (no reason, or too long a text).
create or replace function relaybox_internal.skip_gap(
    stream_name text, sender_ text, last_index_ bigint, reason_ text, skipped_by_ text, with_held boolean default false,
    out epoch integer, out first_index bigint, out last_index bigint, out released bigint
)
language plpgsql volatile
as $$
declare
    stream_ relaybox_internal.stream;
    input_log relaybox_internal.stream_log;
    state relaybox_internal.sender_state;
    first_held bigint;
begin
    perform relaybox_internal.require_writable_primary();
    perform relaybox_internal.require_reason(reason_, 'a gap is given up', 'Say why the messages will never come.');
    perform relaybox_internal.require_length('the name of who skips', skipped_by_, 300);
    set local synchronous_commit = on;
    select s.* into stream_ from relaybox_internal.stream s where s.stream = stream_name for update;
    if not found then
        raise exception using errcode = 'RB004', message = format('stream %s is not delivered in this store', stream_name),
            hint = 'Known here: ' || coalesce((select string_agg(s.stream, ', ' order by s.stream) from relaybox_internal.stream s), 'none') || '.';
    end if;
    -- a sender of which nothing has come: others may wait for its first messages
    insert into relaybox_internal.sender_state (stream_id, sender, epoch, origin, kind)
    select stream_.stream_id, d.sender, d.epoch, d.origin, d.kind
    from relaybox_internal.sender d join relaybox_internal.stream_log l on l.stream_id = stream_.stream_id and l.origin = d.origin
    where d.sender = sender_ and not exists (
        select from relaybox_internal.sender_state s where s.stream_id = stream_.stream_id and s.sender = sender_
    )
    order by d.epoch desc limit 1;
    select s.* into state from relaybox_internal.sender_state s
    where s.stream_id = stream_.stream_id and s.sender = sender_ order by s.begun_at is not null desc, s.epoch desc limit 1;
    if not found then
        raise exception using errcode = 'RB017', message = format('stream %s has nothing with an index of its own from sender %s', stream_name,
        sender_),
            hint = 'Skip only what is missing: see relaybox holdback.';
    end if;
    select min(h.index) into first_held from relaybox_internal.held h where h.sender_id = state.sender_id;
    epoch := state.epoch;
    first_index := state.watermark + 1;
    last_index := coalesce(last_index_, first_held - 1);
    if state.kind <> 'gapless' or stream_.delivery_order not in ('fifo', 'causal')
        or last_index is null or last_index < first_index
        or last_index >= coalesce(first_held, last_index + 1)
            and not (with_held and (first_held, last_index) = (first_index, first_index))
    then
        raise exception using errcode = 'RB017',
            message = format(
                'sender %s in stream %s: %s to %s is no gap; delivered through index %s, the first held one is %s',
                sender_, stream_name, first_index, coalesce(last_index::text, 'nothing'), state.watermark, coalesce(first_held::text, 'none')
            ),
            hint = 'Skip only what is missing: see relaybox holdback.';
    end if;
    insert into relaybox_internal.skip (stream_id, sender, epoch, first_index, last_index, reason, skipped_by)
    values (stream_.stream_id, sender_, state.epoch, first_index, last_index, reason_, skipped_by_);
    -- the watermark passes the gap now, so that this decision already finds met what clocks ask of it
    update relaybox_internal.sender_state s set
        skipped = s.skipped + int8multirange(int8range(first_index, skip_gap.last_index, '[]')), watermark = skip_gap.last_index
    where s.sender_id = state.sender_id;
    select l.* into input_log from relaybox_internal.stream_log l where l.stream_id = stream_.stream_id and l.origin = state.origin;
    stream_.recheck := true;
    perform relaybox_internal.deliver_held(stream_, input_log);
    select s.last_stream_position - stream_.last_stream_position into released from relaybox_internal.stream s where s.stream_id = stream_.stream_id;
end
$$;
