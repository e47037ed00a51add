-- Raises RB015 if a batch is of another generation than its hop has here, or if retention has
-- removed the record of its publication. Caller holds the hop_in row.
create or replace function relaybox_internal.refuse_outdated_batch(
    head relaybox_internal.hop_in, generation_ integer, batch_ bigint
)
returns void
language plpgsql stable
as $$
begin
    if head.generation <> generation_ then
        raise exception using errcode = 'RB015',
            message = format(
                'hop %s: batch %s is of generation %s, the hop is in generation %s here',
                head.hop, batch_, generation_, head.generation
            );
    end if;
    if batch_ <= head.compacted_batch then
        raise exception using errcode = 'RB015',
            message = format(
                'hop %s: batch %s was published long ago; '
                'what was written down about it is removed',
                head.hop, batch_
            );
    end if;
end
$$;
