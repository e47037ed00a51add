-- Records where a locked lane is now. Raises 40001 if the transaction's snapshot is older than the
-- lane's newest cursor. Removes older cursors after every 100 versions. It then writes the lane's
-- row too, so that a snapshot that is older still can't lock the lane any more (40001).
create or replace function relaybox_internal.move_cursor(moved relaybox_internal.cursor)
returns void
language plpgsql volatile
as $$
begin
    moved.version := moved.version + 1;
    moved.moved_at := clock_timestamp();
    insert into relaybox_internal.cursor select moved.* on conflict do nothing;
    if not found then
        raise exception using errcode = '40001',
            message = format(
                'lane %s was moved by another transaction after this one began', moved.lane
            ),
            hint = 'Fetch again in a new transaction.';
    end if;
    if moved.version % 100 = 0 then
        delete from relaybox_internal.cursor c
        where c.subscription_id = moved.subscription_id and c.lane = moved.lane
            and c.version < moved.version;
        update relaybox_internal.lane l set lane = l.lane
        where l.subscription_id = moved.subscription_id and l.lane = moved.lane;
    end if;
end
$$;
