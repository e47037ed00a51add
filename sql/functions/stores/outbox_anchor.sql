-- The seq up to which the outbox is read by seq alone, for a hop that is new here: rows up to it
-- may carry transaction numbers of another cluster, rows above it carry this one's. An outbox that
-- came from another cluster is anchored here if no hop reads it yet: producers wait for that
-- moment. Raises RB011 if one does: it is reanchored or attested first; 55P03 if a transaction that
-- wrote to the outbox stays open.
create or replace function relaybox_internal.outbox_anchor() returns bigint
language plpgsql volatile
as $$
declare
    cluster record;
    known relaybox_internal.store;
    stale text;
    seq bigint;
begin
    select * into cluster from relaybox_internal.cluster_fingerprint();
    select * into known from relaybox_internal.store for update;
    if (cluster.system_identifier, cluster.timeline) = (known.system_identifier, known.timeline) and not relaybox_internal.is_reloaded() then
        return known.anchor_seq;
    end if;
    select h.hop into stale from relaybox_internal.hop_out h
    where h.reads_log is null and h.retired_at is null
        and ((h.system_identifier, h.timeline) <> (cluster.system_identifier, cluster.timeline) or relaybox_internal.is_reloaded())
    order by h.hop limit 1;
    if found then
        raise exception using errcode = 'RB011',
            message = format(
                'store %s was written by cluster %s on timeline %s; this is cluster %s on timeline %s',
                known.store, known.system_identifier, known.timeline, cluster.system_identifier, cluster.timeline
            ),
            hint = format(
                'It was restored, promoted or replaced. A new hop can start after that is said. If it lost nothing: relaybox attest %s ' ||
                    '--reason "...". Else: relaybox reanchor %s',
                known.store, stale
            );
    end if;
    perform set_config('lock_timeout', '200ms', true);
    lock table relaybox.outbox in exclusive mode;
    seq := relaybox_internal.last_outbox_seq();
    perform relaybox_internal.record_anchor(seq);
    return seq;
end
$$;
