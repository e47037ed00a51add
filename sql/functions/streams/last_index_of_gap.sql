-- Returns the last index of a sender's gap that is given up: the one that was asked for, else the
-- one before the first held message. Raises RB017 if this is no gap: the sender is not gapless, the
-- order does not wait for its indexes, or a message of the gap is here, decided on or not. with_held:
-- see skip_gap().
create or replace function relaybox_internal.last_index_of_gap(
    stream_ relaybox_internal.stream, state relaybox_internal.sender_state, last_index_ bigint,
    with_held boolean
)
returns bigint
language plpgsql stable
as $$
declare
    first_index constant bigint := state.watermark + 1;
    first_held constant bigint := (
        select min(h.index) from relaybox_internal.held h where h.sender_id = state.sender_id
    );
    last_index constant bigint := coalesce(last_index_, first_held - 1);
    arrived record;
begin
    if state.kind <> 'gapless' or stream_.delivery_order not in ('fifo', 'causal')
        or last_index is null or last_index < first_index
        or last_index >= coalesce(first_held, last_index + 1)
        and not (with_held and (first_held, last_index) = (first_index, first_index))
    then
        raise exception using errcode = 'RB017',
            message = format(
                'sender %s in stream %s: %s to %s is no gap; '
                'delivered through index %s, the first held one is %s',
                state.sender, stream_.stream, first_index, coalesce(last_index::text, 'nothing'),
                state.watermark, coalesce(first_held::text, 'none')
            ),
            hint = 'Skip only what is missing: see relaybox holdback.';
    end if;
    select i.hop, l.index, l.log_position into arrived
    from relaybox_internal.stream_log g
    join relaybox_internal.hop_in i on i.log_id = g.log_id
    join relaybox_internal.log l on l.log_id = g.log_id and l.log_position > g.decided_position
    where g.stream_id = stream_.stream_id and g.origin = state.origin
        and l.sender = state.sender and l.epoch = state.epoch
        and l.index >= first_index and l.index <= last_index
    order by l.index
    limit 1;
    if found then
        raise exception using errcode = 'RB017',
            message = format(
                'sender %s in stream %s: index %s is not missing: it is at log position %s of hop %s, '
                'and not decided on yet',
                state.sender, stream_.stream, arrived.index, arrived.log_position, arrived.hop
            ),
            hint = 'It is delivered when the hop runs: relaybox transfer ' || arrived.hop;
    end if;
    return last_index;
end
$$;
