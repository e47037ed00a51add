-- The topics that a first hop carries besides those of the file: consumers asked for them, and the file names none of them. Writes down
-- that the others are the file's, or, if topics do not come by subscription any more, all of them. Locks the hop's row.
create or replace function relaybox_internal.keep_subscribed_topics(hop_name text, file_topics text[], by_subscription boolean) returns text[]
language sql volatile
as $$
    update relaybox_internal.hop_out h
    set subscribed_topics = case
        when by_subscription then array(select unnest(h.subscribed_topics) except select unnest(file_topics) order by 1)
        else '{}'
    end
    where h.hop = hop_name and h.reads_log is null
    returning h.subscribed_topics
$$;
