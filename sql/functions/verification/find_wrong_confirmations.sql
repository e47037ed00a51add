-- Confirmations in the source ledger of a hop that contradict its batches or each other: a sentence
-- for each, with the numbers of both sides. Inlined in source_contradictions().
create or replace function relaybox_internal.find_wrong_confirmations(hop_name text)
returns setof text
language sql stable
as $$
    with head as materialized (
        select h.*, coalesce(received.through_batch, 0) as received_batch,
            coalesce(received.through_position, 0) as received_position,
            coalesce(processed.through_position, 0) as processed_position,
            coalesce(settled.through_position, 0) as settled_position
        from relaybox_internal.hop_out h
        left join lateral relaybox_internal.newest_confirmation(hop_name, 'received') received
            on true
        left join lateral relaybox_internal.newest_confirmation(hop_name, 'processed') processed
            on true
        left join lateral relaybox_internal.newest_confirmation(hop_name, 'settled') settled on true
        where h.hop = hop_name
    )
    select format(
        'ledger of the source: batch %s is %s through position %s; %s',
        c.through_batch, c.state, c.through_position,
        case
            when b.batch is null then 'the ledger has no such batch'
            else format('it ends at position %s', b.last_position)
        end
    )
    from head h
    join relaybox_internal.confirmation c
        on c.hop = hop_name and c.through_position > h.compacted_position
    left join relaybox_internal.batch b on b.hop = hop_name and b.batch = c.through_batch
    where b.last_position is distinct from c.through_position
    union all
    select format(
        'ledger of the source: batch %s is planned, received is confirmed through batch %s only',
        h.batch, h.received_batch
    )
    from head h where h.received_batch < h.batch - 1
    union all
    select format(
        'ledger of the source: %s through position %s, received only through position %s',
        c.state, c.through_position, h.received_position
    )
    from head h
    cross join lateral (
        values ('processed', h.processed_position), ('settled', h.settled_position)
    ) c (state, through_position)
    where c.through_position > h.received_position
    union all
    select format(
        'ledger of the source: batches through %s may be sent again, '
        'received is confirmed through batch %s only', h.resend_through, h.received_batch
    )
    from head h where h.resend_through > h.received_batch
    union all
    select format(
        'ledger of the source: batches through position %s are removed, '
        'settled is only position %s',
        h.compacted_position, h.settled_position
    )
    from head h where h.compacted_position > h.settled_position and h.retired_at is null
$$;
