-- Ends the sessions of older attempts at one slice: one that hangs must not keep the rows that a
-- newer attempt writes. A newer attempt is never ended by an older one, and no session of an
-- application is ended or counted, whatever its name. A session that this login may not end is
-- left: the copy then waits for its lock, with a limit. Returns the number of sessions ended.
-- Names: relaybox <hop> b<batch> s<slice> a<attempt>.
create or replace function relaybox_internal.end_older_attempts(
    hop_name text, batch_ bigint, slice_ integer, attempt_ bigint
)
returns integer
language sql volatile
as $$
    select (count(*) filter (where relaybox_internal.end_session(t.pid, t.started_at, t.name)))::integer
    from relaybox_internal.trusted_sessions() t
    where
        t.may_end
        and starts_with(
            t.name,
            format(
                'relaybox %s b%s s%s a', relaybox_internal.hop_in_session_name(hop_name), batch_,
                slice_
            )
        )
        and substring(t.name from ' a([0-9]{1,18})$')::bigint <= attempt_
$$;
