-- Adds the row of a hop that leaves this store. It begins with the oldest message that is kept:
-- '1:1:' sees nothing, and rows up to the store's anchor are read by seq. Raises RB006 (the
-- beginning of the log that it would read is gone), RB011 (the outbox came from another cluster,
-- see outbox_anchor).
create or replace function relaybox_internal.add_hop_out(
    hop_name text, destination_ text, upstream text, log_id_ integer, topics_ text[], policy_ text,
    processed_by_ text[]
)
returns void
language plpgsql volatile
as $$
declare
    first_kept bigint;
    anchor bigint := 0;
begin
    -- a hop keeps the positions of the log that it reads; retention locks the row while it
    -- drops the log's beginning
    perform from relaybox_internal.hop_in i where i.log_id = log_id_ for key share;
    first_kept := (
        select i.first_kept_position from relaybox_internal.hop_in i where i.log_id = log_id_
    );
    if first_kept > 1 then
        raise exception using errcode = 'RB006',
            message = format(
                'hop %s would read the log of hop %s, '
                'which keeps no message below position %s any more',
                hop_name, upstream, first_kept
            ),
            hint = 'Give the longer route a new name, '
                'and a path from the store where its messages are sent.';
    end if;
    if upstream is null then
        anchor := relaybox_internal.outbox_anchor();
    end if;
    insert into relaybox_internal.hop_out (
        hop, destination, reads_log, topics, policy, processed_by, lower, anchor_seq,
        numbering, system_identifier, timeline
    )
    select
        hop_name, destination_, log_id_, case when upstream is null then topics_ end, policy_,
        processed_by_, case when upstream is null then '1:1:'::pg_snapshot end, anchor,
        n.numbering, f.system_identifier, f.timeline
    from relaybox_internal.cluster_fingerprint() f, relaybox_internal.numbering n;
    insert into relaybox_internal.backlog (hop, topics, lower, upper, seqs)
    select hop_name, topics_, '1:1:', relaybox_internal.full_snapshot(),
        int8multirange(int8range(1, greatest(anchor, 1), '[]'))
    where anchor > 0;
end
$$;
