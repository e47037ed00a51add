-- Source: records the store_id of the store that a hop goes to, unless the hop has planned a batch
-- for another one. Returns the recorded id; the caller compares. Null: no such hop. Locks the
-- hop's row if it changes it. Idempotent.
create or replace function relaybox_internal.meet_destination(hop_name text, store_id_ uuid)
returns uuid
language plpgsql volatile
as $$
begin
    perform relaybox_internal.require_writable_primary();
    set local synchronous_commit = on;
    update relaybox_internal.hop_out h set destination_id = store_id_
    where
        h.hop = hop_name and h.destination_id is distinct from store_id_
        and (h.destination_id is null or h.batch = 0);
    return (select h.destination_id from relaybox_internal.hop_out h where h.hop = hop_name);
end
$$;
