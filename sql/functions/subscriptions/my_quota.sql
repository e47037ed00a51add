-- The numbers of count_quota() for the login of this session.
create or replace function relaybox.my_quota(
    out role_name name,
    out subscriptions bigint, out subscription_quota integer,
    out lanes bigint, out lane_quota integer,
    out topics bigint, out topic_quota integer
)
language sql stable security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
    select session_user, c.* from relaybox_internal.count_quota(session_user) c
$$;

comment on function relaybox.my_quota() is
'Shows what the login of this session has in this store, and its quotas (null: none).
Returns `role_name`, `subscriptions` of `subscription_quota`, `lanes` of `lane_quota`, `topics` that
    it asked for of `topic_quota`.';
