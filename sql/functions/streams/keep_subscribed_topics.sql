-- Returns the topics that a first hop carries because consumers asked for them and the file does
-- not name them. Records the others as the file's. If topics do not come by subscription any more,
-- records all as the file's. Locks the hop's row.
create or replace function relaybox_internal.keep_subscribed_topics(
    hop_name text, file_topics text[], by_subscription boolean
)
returns text[]
language sql volatile
as $$
    update relaybox_internal.hop_out h
    set subscribed_topics = case
        when by_subscription then array(
            select unnest(h.subscribed_topics) except select unnest(file_topics) order by 1
        )
        else '{}'
    end
    where h.hop = hop_name and h.reads_log is null
    returning h.subscribed_topics
$$;
