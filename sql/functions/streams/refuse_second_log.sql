-- Raises RB006 if a stream reads another log in this store and its order is not causal. Caller
-- holds the stream's row.
create or replace function relaybox_internal.refuse_second_log(
    hop_name text, stream_ relaybox_internal.stream, log_id_ integer, order_ text
)
returns void
language plpgsql stable
as $$
declare
    other_hop text;
begin
    select i.hop into other_hop
    from relaybox_internal.stream_log l
    join relaybox_internal.hop_in i using (log_id)
    where l.stream_id = stream_.stream_id and l.log_id <> log_id_ and order_ <> 'causal'
    order by i.hop limit 1;
    if found then
        raise exception using errcode = 'RB006',
            message = format(
                'stream %s reads the log of hop %s here; '
                'only a causal stream can read that of hop %s too',
                stream_.stream, other_hop, hop_name
            ),
            hint = 'What a stream decided keeps its rules for ever. '
                'Give the changed route a new name, and no stream of another.';
    end if;
end
$$;
