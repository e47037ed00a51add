-- Registers a hop that leaves this store, or brings its topics and policy up to date. A new hop
-- begins with the oldest message that is kept ('1:1:' sees nothing; rows up to the store's anchor
-- are read by seq). Changed topics count from the next batch on (change_topics). Returns
-- registered, changed or unchanged. Raises RB006 (the hop would read another log or go to another
-- store, would be the first to read a log whose beginning is gone, or was retired), RB011 (the
-- outbox came from another cluster, see outbox_anchor).
create or replace function relaybox_internal.register_hop_out(
    hop_name text, destination_ text, upstream text, topics_ text[], policy_ text,
    processed_by_ text[] default null
)
returns text
language plpgsql volatile
as $$
declare
    log_id_ integer := (select i.log_id from relaybox_internal.hop_in i where i.hop = upstream);
    hop_ relaybox_internal.hop_out;
begin
    select * into hop_ from relaybox_internal.hop_out h where h.hop = hop_name for update;
    if not found then
        perform relaybox_internal.add_hop_out(
            hop_name, destination_, upstream, log_id_, topics_, policy_, processed_by_
        );
        return 'registered';
    end if;
    perform relaybox_internal.refuse_retired_hop(hop_);
    if hop_.destination <> destination_ or hop_.reads_log is distinct from log_id_ then
        raise exception using errcode = 'RB006',
            message = format(
                'hop %s is registered here with destination %s; the file says %s', hop_name,
                hop_.destination, destination_
            ),
            hint = 'A hop keeps its path for ever. Give the changed route a new name.';
    end if;
    if hop_.policy = policy_ and hop_.processed_by is not distinct from processed_by_
        and (upstream is not null or hop_.topics = topics_)
    then
        return 'unchanged';
    end if;
    update relaybox_internal.hop_out
    set policy = policy_, processed_by = processed_by_
    where hop = hop_name;
    if upstream is null then
        perform relaybox_internal.change_topics(hop_name, topics_);
    end if;
    return 'changed';
end
$$;
