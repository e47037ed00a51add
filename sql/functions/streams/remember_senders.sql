-- Destination: records declarations that senders_since() returned at the source, and the snapshot
-- that they are of. Returns how many are new here. Raises RB004, RB016 (a declaration contradicts
-- one that is here).
create or replace function relaybox_internal.remember_senders(
    log_id_ integer, seen pg_snapshot, senders jsonb
)
returns integer
language plpgsql volatile
as $$
declare
    own_log relaybox_internal.stream_log;
    other record;
    new_count integer;
begin
    set local synchronous_commit = on;
    select l.* into own_log from relaybox_internal.stream_log l where l.log_id = log_id_;
    if not found then
        raise exception using errcode = 'RB004',
            message = format('log %s belongs to no stream in this store', log_id_),
            hint = 'Run: relaybox init';
    end if;
    insert into relaybox_internal.sender (origin, sender, epoch, kind, declared_at, declared_by)
    select own_log.origin, s.sender, s.epoch, s.kind, s.declared_at, s.declared_by
    from jsonb_to_recordset(senders) s (
        sender text, epoch integer, kind text, declared_at timestamptz, declared_by text
    )
    order by s.sender, s.epoch
    on conflict do nothing;
    get diagnostics new_count = row_count;
    select s.sender, s.epoch, s.kind, declared.kind as declared_kind into other
    from jsonb_to_recordset(senders) s (sender text, epoch integer, kind text)
    join relaybox_internal.sender declared
        on declared.origin = own_log.origin and declared.sender = s.sender
        and declared.epoch = s.epoch
    where declared.kind <> s.kind
    order by s.sender, s.epoch
    limit 1;
    if found then
        raise exception using errcode = 'RB016',
            message = format(
                'epoch %s of sender %s of %s is %s here and %s at the source', other.epoch,
                other.sender, own_log.origin, other.declared_kind, other.kind
            ),
            hint = format(
                'Store %s lost the declaration and made another. '
                'There, delete that row of relaybox_internal.sender, '
                'then run: relaybox senders new-epoch %s',
                own_log.origin, relaybox_internal.shell_words(own_log.origin, other.sender)
            );
    end if;
    update relaybox_internal.stream_log l set senders_seen = seen
    where l.log_id = log_id_
        and (l.senders_seen is null or pg_snapshot_xmax(seen) >= pg_snapshot_xmax(l.senders_seen));
    return new_count;
end
$$;
