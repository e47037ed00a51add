-- Gives up, on record, what a hop has not planned of topics that it does not have any more, or
-- never had. Messages that commit later are unrouted, and kept. Returns the number of pieces that
-- were given up; 0: there was nothing. Locks the hop's row, as planning does. Raises RB004, RB006
-- (a topic is routed).
create or replace function relaybox_internal.retire_topics(
    hop_name text, topics_ text[], reason text, recorded_by text
)
returns bigint
language plpgsql volatile
as $$
declare
    head relaybox_internal.hop_out;
    until pg_snapshot;
    strange text[];
begin
    perform relaybox_internal.require_writable_primary();
    set local synchronous_commit = on;
    select * into head
    from relaybox_internal.hop_out h where h.hop = hop_name and h.reads_log is null
    for update;
    if not found then
        raise exception using errcode = 'RB004',
            message = format('hop %s does not read the outbox of this store', hop_name),
            hint = 'Run: relaybox retire';
    end if;
    if head.topics && topics_ and head.retired_at is null then
        raise exception using errcode = 'RB006',
            message = format(
                'hop %s moves topic %s', hop_name,
                (select t from unnest(topics_) t where t = any(head.topics) order by 1 limit 1)
            ),
            hint = 'Take the topic out of the route in relaybox.yaml and run: relaybox init';
    end if;
    -- a topic that the hop never had counts as taken from it before anything was sent
    strange := array(
        select unnest(topics_) except select unnest(relaybox_internal.hop_topics(hop_name))
        order by 1
    );
    perform relaybox_internal.add_unrouted_topics(head, strange);
    -- a topic that comes back is read from the backlog up to the frontier: nothing beyond the
    -- frontier may be given up
    until := case
        when head.retired_at is null then relaybox_internal.advance_frontier(hop_name)
        else pg_current_snapshot()
    end;
    return relaybox_internal.retire_pieces(hop_name, topics_, until, reason, recorded_by);
end
$$;
