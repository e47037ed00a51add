-- pre: adds a column
-- Spark reads detached messages from their files, if the files are those that were written.

alter table relaybox_internal.detached_segment add column files jsonb;
comment on column relaybox_internal.detached_segment.files is
'Name, size in bytes, row count, first and last log position of each file, when they were verified. '
'Null: detached by an earlier version.';
