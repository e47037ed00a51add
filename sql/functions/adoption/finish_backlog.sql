-- Ends a backlog: moves what is left, and lets the trigger write into the outbox from the commit on.
-- The caller holds the lock that keeps writers out (lock_adopted): else a row that waits could come
-- after a later one, or stay. Returns how many it moved; null: the backlog has ended before.
create or replace function relaybox_internal.finish_backlog(adoption_id_ integer) returns bigint
language plpgsql volatile
as $$
declare
    moved bigint;
begin
    update relaybox_internal.adopted_table a set state = 'sending'
    where a.adoption_id = adoption_id_ and a.state = 'backlog';
    if not found then
        return null;
    end if;
    moved := relaybox_internal.move_adopted_rows(adoption_id_, 2147483647);
    perform relaybox_internal.make_adoption_functions(
        adoption_id_, relaybox_internal.adopted_relation(adoption_id_)
    );
    return moved;
end
$$;
