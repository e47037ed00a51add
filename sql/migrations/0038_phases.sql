-- pre: adds only
-- Code of the previous version goes on after a `pre` migration, and refuses a store that has had a later `post` one.
-- `relaybox init` adds the column before it locks a row of the table (stores.init.locks): here it would wait for itself.

do $$
begin
    if exists (select from pg_attribute a where a.attrelid = 'relaybox.migration'::regclass and a.attname = 'phase') then
        return;
    end if;
    alter table relaybox.migration add column phase text not null default 'post';
    alter table relaybox.migration add constraint phase_is_known check (phase in ('pre', 'post'));
    comment on column relaybox.migration.phase is 'pre: code of the previous version goes on beside it and after it; post: that code must have ended';
end
$$;
