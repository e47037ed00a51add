-- Raises 42501 below a VACUUM, an ANALYZE, a REINDEX or a refresh of a table. There Postgres runs the
-- expressions of the table's owner in the session of another login, whose rights a function with its
-- owner's rights would take for the caller's. UNLISTEN is refused there, and else does nothing: no
-- session listens to this channel.
create or replace function relaybox_internal.refuse_maintenance() returns void
language plpgsql volatile
as $$
begin
    unlisten relaybox_nothing;
end
$$;
