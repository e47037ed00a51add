-- Removes the records of the oldest attempts of a derivation: those of which the store has neither
-- messages that they read nor messages that they sent. Always kept are the newest attempt, the one
-- that reached furthest, the open one, and what an open trial is compared with. Returns the number
-- of records; again: 0. Locks the derivation's row, as an attempt that begins does.
create or replace function relaybox_internal.compact_derivation(derivation_id_ integer)
returns bigint
language plpgsql volatile
set lock_timeout = '500ms'
as $$
declare
    dropped bigint; -- the last position of the stream that is neither kept nor detached
    sent_from bigint; -- the first seq that the outbox may still have
    reached bigint;
    newest bigint;
    first_needed bigint;
    removed bigint;
begin
    perform relaybox_internal.require_writable_primary();
    perform set_config('synchronous_commit', 'local', true);
    perform from relaybox_internal.derivation d
    where d.derivation_id = derivation_id_ for no key update;
    select s.dropped_stream_position into dropped
    from relaybox_internal.derivation d
    join relaybox_internal.subscription u on u.subscription_id = d.subscription_id
    join relaybox_internal.stream s on s.stream_id = u.stream_id
    where d.derivation_id = derivation_id_;
    select s.first_kept_seq into sent_from from relaybox_internal.store s;
    select max(a.attempt), max(upper(a.stream_positions)) filter (where a.state = 'published')
    into newest, reached
    from relaybox_internal.derivation_attempt a
    where a.derivation_id = derivation_id_;
    select a.attempt into first_needed from relaybox_internal.derivation_attempt a
    where a.derivation_id = derivation_id_ and (
        a.attempt = newest or a.state = 'open'
        or upper(a.stream_positions) - 1 > dropped or a.last_seq >= sent_from
        or (a.state = 'published' and upper(a.stream_positions) = reached)
        or exists (
            select from relaybox_internal.derivation_trial t
            where t.derivation_id = derivation_id_ and t.state = 'open'
                and a.stream_positions
                && int8range(t.first_stream_position, t.last_stream_position, '[]')
        )
    )
    order by a.attempt limit 1;
    delete from relaybox_internal.derivation_attempt a
    where a.derivation_id = derivation_id_ and a.attempt < first_needed;
    get diagnostics removed = row_count;
    return removed;
end
$$;
