-- Sets whether messages are given again only after an approval. Returns whether that changed.
-- Called by init.
create or replace function relaybox_internal.require_approvals(asked boolean) returns boolean
language plpgsql volatile
as $$
begin
    update relaybox_internal.store s set require_approval = asked
    where s.require_approval <> asked;
    return found;
end
$$;
