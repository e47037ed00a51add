-- Locks the rows of these hops as lock_hop() does, and returns them. Waits for none: a hop that another
-- session holds is left out, and so is one whose source lost history, which its own driver tells.
create or replace function relaybox_internal.lock_idle_hops(names text[])
returns setof relaybox_internal.hop_out
language plpgsql volatile
as $$
declare
    locked constant relaybox_internal.hop_out[] := array(
        select h from relaybox_internal.hop_out h
        where h.hop = any(names) and h.reads_log is null and h.retired_at is null
        order by h.hop
        for update skip locked
    );
    cluster record;
    head relaybox_internal.hop_out;
begin
    select * into cluster from relaybox_internal.cluster_fingerprint();
    foreach head in array locked loop
        begin
            perform relaybox_internal.refuse_other_source(
                head, cluster.system_identifier, cluster.timeline, cluster.next_xid
            );
            return next head;
        exception
            when sqlstate 'RB011' then
                continue;
        end;
    end loop;
end
$$;
