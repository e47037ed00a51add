-- Lists what is wrong within the source ledger of a hop, in one snapshot: a sentence for each
-- contradiction, with the numbers of both sides. Returns no row if nothing is wrong. Reads the
-- ledger, and no message.
create or replace function relaybox_internal.source_contradictions(hop_name text) returns setof text
language sql stable
set jit = off
as $$
    select * from relaybox_internal.find_wrong_batches(hop_name)
    union all
    select * from relaybox_internal.find_wrong_confirmations(hop_name)
    union all
    select * from relaybox_internal.find_wrong_generations(hop_name)
    union all
    select * from relaybox_internal.find_wrong_readings(hop_name)
    union all
    select format(
        'the hop was retired by %s at %s (%s): nobody moves its messages, and relaybox.yaml has it',
        h.retired_by, h.retired_at, h.retired_reason
    )
    from relaybox_internal.hop_out h
    where h.hop = hop_name and h.retired_at is not null
$$;
