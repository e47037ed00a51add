-- Records that the oldest segment of a log is being read into files, if it may be detached, and
-- which rows must be in them. A later attempt supersedes an earlier one and writes beside it. No
-- row: there is nothing to detach. Drops nothing. It records the references to large payloads too: no
-- file is read for them later. Raises RB012 if a row of the segment is missing.
create or replace function relaybox_internal.begin_detach(log_id_ integer, recorded_by text)
returns setof relaybox_internal.detached_segment
language plpgsql volatile
as $$
declare
    log_ relaybox_internal.hop_in;
    oldest record;
    found_ record;
begin
    perform relaybox_internal.require_writable_primary();
    select * into log_ from relaybox_internal.hop_in i where i.log_id = log_id_;
    select s.* into oldest
    from relaybox_internal.detachable_segments(log_id_) s order by s.first limit 1;
    if not found then
        return;
    end if;
    select * into found_
    from relaybox_internal.log_digest(oldest.segment, oldest.first, oldest.last);
    if found_.row_count <> oldest.last - greatest(oldest.first, 1) + 1 then
        raise exception using errcode = 'RB012',
            message = format(
                'log of %s: segment %s has %s rows for positions %s to %s', log_.hop,
                oldest.segment, found_.row_count, greatest(oldest.first, 1), oldest.last
            ),
            hint = format(
                'Nothing was detached. Run: relaybox verify %s', split_part(log_.hop, '/', 1)
            );
    end if;
    -- its rows never change, so a later attempt finds the same
    insert into relaybox_internal.detached_payload (log_id, log_position, first, reference)
    select l.log_id, l.log_position, oldest.first, l.headers -> 'relaybox-payload'
    from relaybox_internal.log l
    where l.log_id = log_id_ and l.log_position between oldest.first and oldest.last
        and l.headers ? 'relaybox-payload'
    on conflict on constraint detached_payload_pkey do nothing;
    return query
    insert into relaybox_internal.detached_segment as d (
        log_id, first, last, segment, directory, row_count, hash_sum, needed_by, begun_by, moved_by,
        payloads_listed
    )
    select
        log_id_, oldest.first, oldest.last, c.relname,
        format(
            '%s/%s/%s/%s-%s', rtrim(log_.detach_to, '/'), s.store, log_.hop, c.relname,
            left(md5(gen_random_uuid()::text), 8)
        ),
        found_.row_count, found_.hash_sum, oldest.needed_by, recorded_by, recorded_by, true
    from relaybox_internal.store s, pg_class c where c.oid = oldest.segment
    on conflict on constraint detached_segment_pkey do update
    set state = 'detaching', attempt = d.attempt + 1, directory = excluded.directory,
        strays = case when d.removed_at is null then d.strays || d.directory else d.strays end,
        row_count = excluded.row_count, hash_sum = excluded.hash_sum,
        needed_by = excluded.needed_by, begun_at = clock_timestamp(),
        begun_by = excluded.begun_by, moved_at = clock_timestamp(),
        moved_by = excluded.moved_by, removed_at = null, files = null, payloads_listed = true
    where d.state <> 'detached'
    returning d.*;
end
$$;
