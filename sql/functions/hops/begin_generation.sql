-- Destination: begins a new generation of a hop after the last published batch. Removes what older
-- generations staged beyond it, which nothing could read, and ends their sessions. A session of
-- theirs that resumes later is refused. Idempotent; never goes back. Raises RB014 if this store has
-- a newer generation: the source went back to a time before it.
create or replace function relaybox_internal.begin_generation(log_id_ integer, generation_ integer)
returns void
language plpgsql volatile
as $$
declare
    head relaybox_internal.hop_in;
begin
    perform relaybox_internal.require_writable_primary();
    set local synchronous_commit = on;
    perform relaybox_internal.end_session(t.pid, t.started_at, t.name)
    from relaybox_internal.trusted_sessions() t
    join relaybox_internal.hop_in i on i.log_id = log_id_ and i.generation < generation_
    where
        t.may_end
        and starts_with(t.name, format('relaybox %s b', relaybox_internal.hop_in_session_name(i.hop)));
    select * into head from relaybox_internal.hop_in i where i.log_id = log_id_ for no key update;
    if head.generation > generation_ then
        raise exception using errcode = 'RB014',
            message = format(
                'hop %s: the source is in generation %s, this store in generation %s', head.hop,
                generation_, head.generation
            ),
            hint = 'The source lost history. Nothing was moved. '
                'Run: relaybox reanchor ' || head.hop;
    end if;
    if head.generation < generation_ then
        delete from relaybox_internal.log l
        where l.log_id = log_id_ and l.log_position > head.published_position;
        delete from relaybox_internal.nonconforming_message n
        where n.log_id = log_id_ and n.log_position > head.published_position;
        delete from relaybox_internal.receipt r
        where r.log_id = log_id_ and r.batch > head.published_batch;
        update relaybox_internal.hop_in set generation = generation_ where log_id = log_id_;
        -- senders_seen is of a history that may not be the source's
        update relaybox_internal.stream_log set senders_seen = null where log_id = log_id_;
    end if;
end
$$;
