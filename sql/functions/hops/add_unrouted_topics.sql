-- Adds topics that a hop never had to its backlog, as unrouted: the rows up to the hop's anchor by
-- seq alone, later ones without an end. Caller holds the hop's row.
create or replace function relaybox_internal.add_unrouted_topics(
    head relaybox_internal.hop_out, topics_ text[]
)
returns void
language plpgsql volatile
as $$
begin
    if topics_ = '{}' then
        return;
    end if;
    insert into relaybox_internal.backlog (hop, topics, lower, upper, seqs, state)
    select head.hop, topics_, '1:1:', relaybox_internal.full_snapshot(),
        int8multirange(int8range(1, greatest(head.anchor_seq, 1), '[]')), 'unrouted'
    where head.anchor_seq > 0;
    insert into relaybox_internal.backlog (hop, topics, lower, seqs, state)
    values (
        head.hop, topics_, '1:1:',
        int8multirange(int8range(head.anchor_seq + 1, 9223372036854775807)), 'unrouted'
    );
end
$$;
