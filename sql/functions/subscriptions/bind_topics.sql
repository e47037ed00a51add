-- Sets whether a role reads only messages of topics that it was granted. Returns whether that
-- changed. Called by init.
create or replace function relaybox_internal.bind_topics(asked boolean) returns boolean
language plpgsql volatile
as $$
begin
    update relaybox_internal.store s set bind_topics = asked
    where s.bind_topics <> asked;
    return found;
end
$$;
