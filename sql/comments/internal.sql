-- Every other table, for those who maintain a store: nothing here is for applications. Who reads it with relaybox_reader sees all rows.

comment on schema relaybox_internal is 'What only Relaybox itself uses. Names and columns change from version to version.';

-- The store and its schema
comment on table relaybox_internal.store is 'One row: what this store is, its quotas, and the cluster whose transaction numbers its outbox has.';
comment on table relaybox.migration is 'The numbered files of sql/migrations that were applied to this store.';
comment on table relaybox_internal.attestation is 'Who stated that another cluster, or another timeline, is this store without any loss.';

-- Sending
comment on table relaybox_internal.outbox_overflow is
'Rows of the outbox that no segment covers; the next ensure_outbox_segments() makes a segment of them.';
comment on table relaybox_internal.sender is
'Senders that number their messages themselves, one row for each epoch; copied to every store that their routes reach.';
comment on table relaybox_internal.sender_counter is 'The newest number that next_index() gave, for each declared sender of this store.';

-- Hops: the source's ledger
comment on table relaybox_internal.hop_out is 'The hops that leave this store: what each one reads, its newest plan, and how it confirms.';
comment on table relaybox_internal.batch is 'Source ledger: the plan of each batch. A planned batch never changes.';
comment on table relaybox_internal.attempt is 'Who tried to transfer which batch, and when it began.';
comment on table relaybox_internal.confirmation is
'Source ledger: the last position of a hop that the stores further down the route received, processed or settled.';
comment on table relaybox_internal.generation is 'Each time a hop went on after lost history: who did it, why, and what was found then.';
comment on table relaybox_internal.ghost is 'Messages that a destination has and this store lost.';

-- Hops: the destination's ledger
comment on table relaybox_internal.hop_in is
'The hops that arrive in this store: the last published position of each log, and how long messages are kept.';
comment on table relaybox_internal.log is 'The messages that arrived, one partition for each hop, in segments. Also what is not published yet.';
comment on table relaybox_internal.receipt is 'Which slices of a batch are copied, written by the transaction that copied them.';
comment on table relaybox_internal.arrival is 'Destination ledger: the published batches. Consumers may read up to the last position.';

-- Streams
comment on table relaybox_internal.stream is 'What this store delivers of a route: its order, its limits, and its last stream position.';
comment on table relaybox_internal.stream_log is 'The logs that a stream reads, and the last decided position of each.';
comment on table relaybox_internal.stream_topic is 'The topics that a stream carries, or carried.';
comment on table relaybox_internal.decision is
'For each published batch: how many messages were delivered, held, set aside or found to be duplicates.';
comment on table relaybox_internal.delivery is 'Runs of stream positions in a stream, and the positions in the logs of the messages that have them.';
comment on table relaybox_internal.sender_state is 'For each sender of a stream: its epoch, and which of its indexes were delivered.';
comment on table relaybox_internal.index_range is 'Runs of indexes of a sender, and the positions in the logs of the messages that have them.';
comment on table relaybox_internal.seen is 'Message ids of the newest messages of a stream, to find duplicates.';
comment on table relaybox_internal.skip is 'Gaps of senders that an operator skipped: who did it, and why.';
comment on table relaybox_internal.held is 'Messages that wait for an earlier one of their sender, or for one that their clock names.';
comment on table relaybox_internal.dead_letter is 'Messages that a stream or a subscription set aside. To read them: relaybox.dead_letters.';

-- Subscriptions
comment on table relaybox_internal.subscription is 'Every subscription, ended ones included. To read the open ones: relaybox.subscriptions.';
comment on table relaybox_internal.lane is 'The lanes of open subscriptions. A fetch locks its row.';
comment on table relaybox_internal.cursor is
'Where each lane is: one row for each of its newest movements. The newest version counts: relaybox_internal.lane_cursors.';
comment on table relaybox_internal.failed_attempt is 'Messages that were refused and will be fetched again.';
comment on table relaybox_internal.replay_range is 'Ranges that second cursors read, one after the other. To read them: relaybox.replay_ranges.';
comment on table relaybox_internal.consumer_quota is 'Database roles that have subscriptions, or a quota of their own.';

-- Retention
comment on table relaybox_internal.dropped_segment is 'Segments that retention dropped: of the outbox (hop is null) or of the log of a hop.';
comment on table relaybox_internal.detached_segment is 'Segments of logs that were moved into files, and the directory of these files.';
