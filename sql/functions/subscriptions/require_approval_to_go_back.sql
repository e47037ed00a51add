-- Raises RB042 if the caller needs an approval to have messages again, and its new subscription,
-- `made`, would have some again: an earlier subscription of this name to this stream had done them.
-- Called after `made` was inserted: all others of the name have ended, also one that this snapshot
-- still sees open. A snapshot of the whole transaction may be older than what the others had done, and
-- is refused.
create or replace function relaybox_internal.require_approval_to_go_back(
    name text, made integer, stream_id_ integer, first_stream_position_ bigint
)
returns void
language plpgsql stable
as $$
begin
    if not exists (select from relaybox_internal.acting_role c where c.needs_approval) then
        return;
    end if;
    if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
        raise exception using errcode = 'RB042',
            message = format(
                'subscribe %s is refused: a transaction of %s does not see what has ended since it '
                'began', name, upper(current_setting('transaction_isolation'))
            ),
            hint = 'In this store messages are given again only after an approval. Subscribe in a '
                'transaction of READ COMMITTED.';
    end if;
    if exists (
        select from relaybox_internal.subscription s
        join relaybox_internal.stream t on t.stream_id = s.stream_id
        where s.subscription = name and s.stream_id = stream_id_ and s.subscription_id <> made
            and first_stream_position_ <= coalesce(s.done_at_end, t.last_stream_position)
    ) then
        perform relaybox_internal.require_approval(
            format('subscribe %s at stream position %s', name, first_stream_position_), 'replay'
        );
    end if;
end
$$;
