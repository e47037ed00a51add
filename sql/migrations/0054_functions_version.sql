-- pre: adds columns
-- Which version of Relaybox made the functions of this store: an older one does not replace them
-- unasked.

alter table relaybox_internal.store add column functions_version text;
alter table relaybox_internal.store add column functions_order integer[];
comment on column relaybox_internal.store.functions_version is
'The newest version of Relaybox whose init made functions and views here; of init --older: that '
'version.';
comment on column relaybox_internal.store.functions_order is
'The same version as numbers that sort as versions do: major, minor, patch, stage, number of the '
'stage.';
