-- The law of conservation (G12) over a range of seqs (after, through]: one row per topic and hop
-- that reads the outbox and is not retired.
create or replace function relaybox_internal.outbox_account(after_seq bigint, through_seq bigint)
returns jsonb
language sql stable
set enable_seqscan = on
as $$
    select coalesce(jsonb_agg(to_jsonb(a) order by a.hop, a.topic), '[]')
    from relaybox_internal.account_for_outbox(
        array(
            select h.hop from relaybox_internal.hop_out h where h.reads_log is null and h.retired_at is null
        ),
        after_seq, through_seq
    ) a
$$;
