-- Retires a hop that leaves this store: it moves nothing more, and retention does not keep messages
-- for it any more. Locks its row, as planning does. Returns false if it was retired before. Runs in
-- the caller's transaction. Raises RB001, RB004, RB006 (the hop is in use, see hop_in_use).
create or replace function relaybox_internal.retire_hop(
    hop_name text, reason text, recorded_by text
)
returns boolean
language plpgsql volatile
as $$
declare
    head relaybox_internal.hop_out;
    used record;
begin
    perform relaybox_internal.require_writable_primary();
    set local synchronous_commit = on;
    select * into head from relaybox_internal.hop_out h where h.hop = hop_name for update;
    if not found then
        raise exception using errcode = 'RB004',
            message = format('hop %s does not leave this store', hop_name),
            hint = 'Run: relaybox retire';
    end if;
    if head.retired_at is not null then
        return false;
    end if;
    select * into used from relaybox_internal.hop_in_use(head);
    if used.told is not null then
        raise exception using errcode = 'RB006',
            message = format('hop %s is in use: %s', hop_name, used.told),
            hint = used.next_step;
    end if;
    update relaybox_internal.hop_out h
    set retired_at = clock_timestamp(), retired_by = recorded_by, retired_reason = reason
    where h.hop = hop_name;
    if head.reads_log is null then
        perform relaybox_internal.split_backlog(hop_name, 'routed', head.topics, 'unrouted', null);
        insert into relaybox_internal.backlog (hop, topics, lower, seqs, state)
        values (
            hop_name, head.topics, head.lower,
            int8multirange(int8range(head.anchor_seq + 1, 9223372036854775807)), 'unrouted'
        );
        perform relaybox_internal.retire_topics(
            hop_name, relaybox_internal.hop_topics(hop_name), reason, recorded_by
        );
    end if;
    return true;
end
$$;
