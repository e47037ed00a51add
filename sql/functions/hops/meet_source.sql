-- Destination: records the store_id of the store that a hop comes from, unless a message of another
-- one is here. Returns the recorded id; the caller compares. Null: no such hop. Locks the hop's row
-- if it changes it. Idempotent.
create or replace function relaybox_internal.meet_source(hop_name text, store_id_ uuid)
returns uuid
language plpgsql volatile
as $$
begin
    perform relaybox_internal.require_writable_primary();
    set local synchronous_commit = on;
    update relaybox_internal.hop_in i set source_id = store_id_
    where
        i.hop = hop_name and i.source_id is distinct from store_id_
        and (
            i.source_id is null
            or i.published_batch = 0
            and not exists (
                select from relaybox_internal.receipt r where r.log_id = i.log_id and r.batch = 1
            )
        );
    return (select i.source_id from relaybox_internal.hop_in i where i.hop = hop_name);
end
$$;
