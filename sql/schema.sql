-- Made by `make schema` from a fresh store; a test keeps it current. Functions are in sql/functions.

CREATE SCHEMA relaybox;

COMMENT ON SCHEMA relaybox IS 'What producers, consumers and operators use of Relaybox. Functions: \df+ relaybox.*, tables and views: \d+ relaybox.*';

CREATE SCHEMA relaybox_internal;

COMMENT ON SCHEMA relaybox_internal IS 'What only Relaybox itself uses. Names and columns change from version to version.';

CREATE VIEW relaybox.consumer_action WITH (security_barrier='true') AS
 SELECT action_id,
    subscription,
    action,
    detail,
    reason,
    done_at,
    done_by
   FROM relaybox_internal.consumer_action k
  WHERE (( SELECT scope.sees_all
           FROM relaybox_internal.acting_role scope) OR (EXISTS ( SELECT
           FROM relaybox_internal.bound_subscriptions b
          WHERE (b.subscription_id = subscription_id))) OR ((subscription_id IS NULL) AND (action = 'drop'::text) AND (EXISTS ( SELECT
           FROM relaybox_internal.allowed_streams o
          WHERE ((o.stream = subscription) AND (done_at >= o.bound_at))))));

COMMENT ON VIEW relaybox.consumer_action IS 'What people and consumers did to subscriptions, written in the transaction that did it.';

COMMENT ON COLUMN relaybox.consumer_action.action_id IS 'Number of the action.';

COMMENT ON COLUMN relaybox.consumer_action.subscription IS 'The subscription; for a dead letter of a stream: the stream.';

COMMENT ON COLUMN relaybox.consumer_action.action IS 'subscribe, unsubscribe, replay, cancel_replay, redrive, drop, fetch_one_at_a_time or change_delayed.';

COMMENT ON COLUMN relaybox.consumer_action.detail IS 'The values of the action; on_behalf_of: the person for whom an operator''s login acted.';

COMMENT ON COLUMN relaybox.consumer_action.reason IS 'Why, as given.';

COMMENT ON COLUMN relaybox.consumer_action.done_at IS 'When.';

COMMENT ON COLUMN relaybox.consumer_action.done_by IS 'The login.';

CREATE VIEW relaybox.dead_letters WITH (security_barrier='true') AS
 SELECT d.dead_letter_id,
    d.state,
    s.stream,
    n.subscription,
    d.lane,
    d.stream_position,
    d.reason,
    d.detail,
    d.attempts,
    d.first_at,
    d.last_at,
    d.last_by,
    d.resolved_at,
    d.resolved_by,
    d.resolved_reason,
    i.hop,
    d.log_position,
    l.message_id,
    l.topic,
    l.sender,
    l.epoch,
    l.index,
    l.key,
    l.payload,
    l.payload_bytes,
    l.headers,
    l.sent_at,
    d.due_at
   FROM ((((relaybox_internal.dead_letter d
     JOIN relaybox_internal.stream s ON ((s.stream_id = d.stream_id)))
     JOIN relaybox_internal.hop_in i ON ((i.log_id = d.log_id)))
     LEFT JOIN relaybox_internal.subscription n ON ((n.subscription_id = d.subscription_id)))
     LEFT JOIN LATERAL ( SELECT m.log_id,
            m.epoch,
            m.log_position,
            m.index,
            m.message_id,
            m.sent_at,
            m.topic,
            m.sender,
            m.key,
            m.headers,
            m.payload,
            m.payload_bytes,
            m.clock
           FROM relaybox_internal.log m
          WHERE ((m.log_id = d.log_id) AND (m.log_position = d.log_position) AND ((EXISTS ( SELECT
                   FROM relaybox_internal.allowed_topics a
                  WHERE (a.topic = '*'::text))) OR (m.topic IN ( SELECT a.topic
                   FROM relaybox_internal.allowed_topics a))))
         OFFSET 0) l ON (true))
  WHERE ((( SELECT scope.sees_all
           FROM relaybox_internal.acting_role scope) OR (d.stream_id IN ( SELECT o.stream_id
           FROM relaybox_internal.allowed_streams o)) OR (EXISTS ( SELECT
           FROM relaybox_internal.bound_subscriptions b
          WHERE (b.subscription_id = d.subscription_id)
         OFFSET 0))) AND ((EXISTS ( SELECT
           FROM relaybox_internal.allowed_topics a
          WHERE (a.topic = '*'::text))) OR (COALESCE(l.topic, n.topic) IN ( SELECT a.topic
           FROM relaybox_internal.allowed_topics a))));

COMMENT ON VIEW relaybox.dead_letters IS 'Messages that a stream or a subscription of this store set aside, and delayed ones that a subscription passed. relaybox.redrive gives them again, relaybox.drop_dead_letter gives one up.';

COMMENT ON COLUMN relaybox.dead_letters.dead_letter_id IS 'Number of the dead letter, for redrive and drop_dead_letter.';

COMMENT ON COLUMN relaybox.dead_letters.state IS 'open, redriving (given to consumers again), redriven (acknowledged then), dropped (given up) or delayed (given when it is due).';

COMMENT ON COLUMN relaybox.dead_letters.stream IS 'The stream.';

COMMENT ON COLUMN relaybox.dead_letters.subscription IS 'The subscription; null: the stream itself set the message aside.';

COMMENT ON COLUMN relaybox.dead_letters.lane IS 'Lane of the subscription.';

COMMENT ON COLUMN relaybox.dead_letters.stream_position IS 'Stream position of the message; null: the stream itself set it aside.';

COMMENT ON COLUMN relaybox.dead_letters.reason IS 'Kind, one word: refused, killed_its_worker, expired, waits_behind, or delayed (not due when its lane passed it); of a stream, why it did not deliver the message.';

COMMENT ON COLUMN relaybox.dead_letters.detail IS 'In words; for refused, the reason that the last nack gave.';

COMMENT ON COLUMN relaybox.dead_letters.attempts IS 'Number of deliveries that failed; 0: it waits behind another one, or expired before it was fetched.';

COMMENT ON COLUMN relaybox.dead_letters.first_at IS 'When the message was fetched first, as far as known; if it waits behind another, or is the stream''s own: when it was set aside.';

COMMENT ON COLUMN relaybox.dead_letters.last_at IS 'When it was refused or set aside last.';

COMMENT ON COLUMN relaybox.dead_letters.last_by IS 'The worker that had it then, or the login.';

COMMENT ON COLUMN relaybox.dead_letters.resolved_at IS 'When it was redriven and acknowledged, or dropped.';

COMMENT ON COLUMN relaybox.dead_letters.resolved_by IS 'The login that dropped it; null: nobody did.';

COMMENT ON COLUMN relaybox.dead_letters.resolved_reason IS 'Why it was dropped.';

COMMENT ON COLUMN relaybox.dead_letters.hop IS 'The hop in whose log the message is.';

COMMENT ON COLUMN relaybox.dead_letters.log_position IS 'Its number in that log.';

COMMENT ON COLUMN relaybox.dead_letters.message_id IS 'Made by the producer or its store; the same in every store and replay; null when no longer kept.';

COMMENT ON COLUMN relaybox.dead_letters.topic IS 'As sent; null when no longer kept.';

COMMENT ON COLUMN relaybox.dead_letters.sender IS 'As sent; null when no longer kept.';

COMMENT ON COLUMN relaybox.dead_letters.epoch IS 'Of the sender''s numbering; 0: the sender has none, and index is the position in the first log.';

COMMENT ON COLUMN relaybox.dead_letters.index IS 'The sender''s number of the message.';

COMMENT ON COLUMN relaybox.dead_letters.key IS 'As sent; may be null.';

COMMENT ON COLUMN relaybox.dead_letters.payload IS 'As sent, if it is text.';

COMMENT ON COLUMN relaybox.dead_letters.payload_bytes IS 'As sent, if it is bytes.';

COMMENT ON COLUMN relaybox.dead_letters.headers IS 'As sent; may be null.';

COMMENT ON COLUMN relaybox.dead_letters.sent_at IS 'When the row was inserted at the origin, by the clock of that server; null when no longer kept.';

COMMENT ON COLUMN relaybox.dead_letters.due_at IS 'When a delayed message that was passed is due; else null.';

CREATE VIEW relaybox.inbox WITH (security_barrier='true') AS
 SELECT i.hop,
    l.log_position,
    l.message_id,
    l.topic,
    l.sender,
    l.epoch,
    l.index,
    l.key,
    l.payload,
    l.payload_bytes,
    l.headers,
    l.clock,
    l.sent_at
   FROM (relaybox_internal.hop_in i
     JOIN relaybox_internal.log l ON (((l.log_id = i.log_id) AND (l.log_position <= i.published_position))))
  WHERE ((EXISTS ( SELECT
           FROM relaybox_internal.allowed_topics a
          WHERE (a.topic = '*'::text))) OR (( SELECT jsonb_agg(a.topic) AS jsonb_agg
           FROM relaybox_internal.allowed_topics a) ? l.topic));

COMMENT ON VIEW relaybox.inbox IS 'Every published message of every log in this store, duplicates included; where topics are granted to roles, only those of topics that the role was granted. To read a stream in order, use relaybox.fetch or relaybox.read_stream.';

COMMENT ON COLUMN relaybox.inbox.hop IS 'The hop whose log it is, such as flights/1.';

COMMENT ON COLUMN relaybox.inbox.log_position IS 'Number of the message in that log: 1, 2, 3 ... without a gap.';

COMMENT ON COLUMN relaybox.inbox.message_id IS 'Made by the producer or its store; the same in every store and replay.';

COMMENT ON COLUMN relaybox.inbox.topic IS 'As sent.';

COMMENT ON COLUMN relaybox.inbox.sender IS 'As sent.';

COMMENT ON COLUMN relaybox.inbox.epoch IS 'Of the sender''s numbering; 0: the sender has none, and index is the position in the first log.';

COMMENT ON COLUMN relaybox.inbox.index IS 'The sender''s number of the message.';

COMMENT ON COLUMN relaybox.inbox.key IS 'As sent; may be null.';

COMMENT ON COLUMN relaybox.inbox.payload IS 'As sent, if it is text.';

COMMENT ON COLUMN relaybox.inbox.payload_bytes IS 'As sent, if it is bytes.';

COMMENT ON COLUMN relaybox.inbox.headers IS 'As sent; may be null.';

COMMENT ON COLUMN relaybox.inbox.clock IS 'What the sender had received when it sent: {"sender": index} or {"sender": [epoch, index]}; may be null.';

COMMENT ON COLUMN relaybox.inbox.sent_at IS 'When the row was inserted at the origin, by the clock of that server.';

CREATE TABLE relaybox.migration (
    number integer NOT NULL,
    name text NOT NULL,
    applied_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    phase text DEFAULT 'post'::text NOT NULL,
    CONSTRAINT phase_is_known CHECK ((phase = ANY (ARRAY['pre'::text, 'post'::text])))
);

COMMENT ON TABLE relaybox.migration IS 'The migrations of this store, in the order of their numbers. The highest number is the version of its schema.';

COMMENT ON COLUMN relaybox.migration.number IS 'Number of the migration. Of a store that was made new also those that it did not need.';

COMMENT ON COLUMN relaybox.migration.name IS 'Its name; tables: the tables of a new store have it.';

COMMENT ON COLUMN relaybox.migration.applied_at IS 'When init applied it.';

COMMENT ON COLUMN relaybox.migration.phase IS 'pre: code of the previous version can run beside it and after it; post: that code must have ended.';

ALTER TABLE ONLY relaybox.migration
    ADD CONSTRAINT migration_pkey PRIMARY KEY (number);

CREATE TABLE relaybox.outbox (
    seq bigint DEFAULT nextval('relaybox.outbox_seq'::regclass) NOT NULL,
    xid xid8 DEFAULT pg_current_xact_id() NOT NULL,
    message_id uuid DEFAULT relaybox.new_message_id() NOT NULL,
    index bigint,
    sent_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    epoch integer DEFAULT 1 NOT NULL,
    topic text NOT NULL,
    sender text NOT NULL,
    key text,
    headers jsonb,
    payload text,
    payload_bytes bytea,
    clock jsonb,
    CONSTRAINT message_is_accepted CHECK (relaybox_internal.accepts_message(topic, sender, key, index, epoch, headers, payload, payload_bytes, clock))
)
PARTITION BY RANGE (seq);

COMMENT ON TABLE relaybox.outbox IS 'Insert a message here, in the transaction of your own work: it is sent if that commits. Rows are never changed.';

COMMENT ON COLUMN relaybox.outbox.seq IS 'Order of insertion, given by the store.';

COMMENT ON COLUMN relaybox.outbox.xid IS 'The transaction that inserted the row, given by the store.';

COMMENT ON COLUMN relaybox.outbox.message_id IS 'Optional; made if absent. Give it again when you repeat an insert whose outcome is unknown.';

COMMENT ON COLUMN relaybox.outbox.index IS 'Optional, from 1: number of the message for a sender that numbers its messages itself, such as next_index() gives.';

COMMENT ON COLUMN relaybox.outbox.sent_at IS 'When the row was inserted, given by the store.';

COMMENT ON COLUMN relaybox.outbox.epoch IS 'Of the numbering, 1 if absent; sender_epoch() gives it.';

COMMENT ON COLUMN relaybox.outbox.topic IS '1 to 48 of a-z 0-9 _ . - Routes choose messages by it.';

COMMENT ON COLUMN relaybox.outbox.sender IS 'Who sends, 1 to 48 of A-Z a-z 0-9 _ . : -';

COMMENT ON COLUMN relaybox.outbox.key IS 'Optional, at most 200 characters. Subscriptions with lane_by key keep the order of a key.';

COMMENT ON COLUMN relaybox.outbox.headers IS 'Optional JSON object, at most 64 KiB and 64 levels; each number is between -1e308 and 1e308.';

COMMENT ON COLUMN relaybox.outbox.payload IS 'Text, at most 16 MiB. Exactly one of payload and payload_bytes.';

COMMENT ON COLUMN relaybox.outbox.payload_bytes IS 'Bytes, at most 16 MiB. Exactly one of payload and payload_bytes.';

COMMENT ON COLUMN relaybox.outbox.clock IS 'Optional JSON object, at most 64 KiB and 1,000 senders: what the sender had received when it sent, {"sender": index} or {"sender": [epoch, index]}.';

ALTER TABLE ONLY relaybox.outbox ATTACH PARTITION relaybox_internal.outbox_overflow DEFAULT;

ALTER TABLE ONLY relaybox.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (seq);

CREATE INDEX outbox_message_id ON ONLY relaybox.outbox USING btree (message_id);

CREATE INDEX outbox_xid ON ONLY relaybox.outbox USING btree (xid);

ALTER INDEX relaybox.outbox_message_id ATTACH PARTITION relaybox_internal.outbox_overflow_message_id_idx;

ALTER INDEX relaybox.outbox_pkey ATTACH PARTITION relaybox_internal.outbox_overflow_pkey;

CREATE SEQUENCE relaybox.outbox_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

COMMENT ON SEQUENCE relaybox.outbox_seq IS 'Numbers the rows of relaybox.outbox.';

ALTER INDEX relaybox.outbox_xid ATTACH PARTITION relaybox_internal.outbox_overflow_xid_idx;

CREATE VIEW relaybox.replay_ranges WITH (security_barrier='true') AS
 SELECT r.replay_range_id AS replay,
    parent.subscription,
    n.subscription AS replayed_as,
    r.first_stream_position,
    r.last_stream_position,
    r.asked_by,
    r.reason,
    r.begun_at,
    n.ended_at,
    COALESCE(r.done_at, newest.done_at) AS done_at
   FROM (((relaybox_internal.replay_range r
     JOIN relaybox_internal.subscription n ON ((n.subscription_id = r.subscription_id)))
     JOIN relaybox_internal.subscription parent ON ((parent.subscription_id = n.replay_of)))
     LEFT JOIN LATERAL ( SELECT max(c.moved_at) AS done_at
           FROM relaybox_internal.lane_cursors c
          WHERE ((c.subscription_id = r.subscription_id) AND (r.done_at IS NULL))
         HAVING (min(c.done_stream_position) >= r.last_stream_position)) newest ON (true))
  WHERE (( SELECT scope.sees_all
           FROM relaybox_internal.acting_role scope) OR (EXISTS ( SELECT
           FROM relaybox_internal.bound_subscriptions b
          WHERE (b.subscription_id = r.subscription_id))));

COMMENT ON VIEW relaybox.replay_ranges IS 'Ranges that second cursors read, one after the other: replays with second_cursor, and backfills from Airflow.';

COMMENT ON COLUMN relaybox.replay_ranges.replay IS 'Number of the range.';

COMMENT ON COLUMN relaybox.replay_ranges.subscription IS 'The subscription that is replayed.';

COMMENT ON COLUMN relaybox.replay_ranges.replayed_as IS 'The second cursor: the name to fetch from.';

COMMENT ON COLUMN relaybox.replay_ranges.first_stream_position IS 'First stream position of the range.';

COMMENT ON COLUMN relaybox.replay_ranges.last_stream_position IS 'Last stream position of the range.';

COMMENT ON COLUMN relaybox.replay_ranges.asked_by IS 'Who asked for it, and those who joined: runs of Airflow, or logins.';

COMMENT ON COLUMN relaybox.replay_ranges.reason IS 'Why.';

COMMENT ON COLUMN relaybox.replay_ranges.begun_at IS 'When it was asked for.';

COMMENT ON COLUMN relaybox.replay_ranges.ended_at IS 'When the second cursor was closed; null: it is open.';

COMMENT ON COLUMN relaybox.replay_ranges.done_at IS 'When the whole range was acknowledged; null: not yet.';

CREATE TABLE relaybox.sender_role (
    sender text NOT NULL,
    role_name name NOT NULL,
    bound_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    bound_by text DEFAULT SESSION_USER NOT NULL
);

COMMENT ON TABLE relaybox.sender_role IS 'Which database roles may send as which sender, in a store with bind_senders: true. `relaybox senders bind` writes it.';

COMMENT ON COLUMN relaybox.sender_role.sender IS 'The sender.';

COMMENT ON COLUMN relaybox.sender_role.role_name IS 'The role that may send as this sender, itself or by membership.';

COMMENT ON COLUMN relaybox.sender_role.bound_at IS 'When it was bound.';

COMMENT ON COLUMN relaybox.sender_role.bound_by IS 'The login that bound it.';

ALTER TABLE ONLY relaybox.sender_role
    ADD CONSTRAINT sender_role_pkey PRIMARY KEY (sender, role_name);

CREATE VIEW relaybox.subscriptions WITH (security_barrier='true') AS
 SELECT n.subscription,
    s.stream,
    n.topic,
    n.lanes,
    n.lane_by,
    n.first_stream_position,
    n.through_stream_position,
    parent.subscription AS replay_of,
    n.rows_per_second,
    n.nack_limit,
    n.crash_limit,
    n.hold_sender,
    n.retry_seconds,
    n.lease_seconds,
    n.delayed,
    n.subscribed_at,
    n.subscribed_by,
    c.done_stream_position,
    c.lane_stream_positions,
    c.replaying,
    c.leased_lanes,
    c.moved_at,
    c.held_lanes,
    passed.message_count AS delayed_messages,
    GREATEST(c.done_stream_position, LEAST(n.through_stream_position, s.last_stream_position)) AS last_stream_position,
    GREATEST((0)::bigint, (LEAST(n.through_stream_position, s.last_stream_position) - c.done_stream_position)) AS stream_positions_behind,
    GREATEST((0)::bigint, (LEAST(n.through_stream_position, (s.first_kept_stream_position - 1)) - GREATEST(c.done_stream_position, s.dropped_stream_position))) AS detached_stream_positions,
    ( SELECT count(*) AS count
           FROM relaybox_internal.dead_letter d
          WHERE ((d.subscription_id = n.subscription_id) AND (d.state = ANY (ARRAY['open'::text, 'redriving'::text])) AND (d.reason <> 'delayed'::text))) AS dead_letters,
    ARRAY( SELECT d.stream_position
           FROM relaybox_internal.dead_letter d
          WHERE ((d.subscription_id = n.subscription_id) AND (d.state = ANY (ARRAY['open'::text, 'redriving'::text])) AND (d.reason <> 'delayed'::text))
          ORDER BY d.stream_position) AS dead_letter_stream_positions,
    LEAST(c.due_at, passed.due_at) AS due_at
   FROM ((((relaybox_internal.subscription n
     JOIN relaybox_internal.stream s ON ((s.stream_id = n.stream_id)))
     LEFT JOIN relaybox_internal.subscription parent ON ((parent.subscription_id = n.replay_of)))
     JOIN LATERAL ( SELECT min(k.done_stream_position) AS done_stream_position,
            bool_or((k.done_stream_position < k.replay_stream_position)) AS replaying,
            max(k.moved_at) AS moved_at,
            count(*) FILTER (WHERE ((k.leased_until > clock_timestamp()) AND (k.leased_until <= (clock_timestamp() + make_interval(secs => (n.lease_seconds)::double precision))))) AS leased_lanes,
            array_agg(k.done_stream_position ORDER BY k.lane) AS lane_stream_positions,
            count(*) FILTER (WHERE (k.due_at > clock_timestamp())) AS held_lanes,
            min(k.due_at) AS due_at
           FROM relaybox_internal.lane_cursors k
          WHERE (k.subscription_id = n.subscription_id)) c ON (true))
     JOIN LATERAL ( SELECT count(*) AS message_count,
            min(d.due_at) AS due_at
           FROM relaybox_internal.dead_letter d
          WHERE (s.has_delay AND (d.subscription_id = n.subscription_id) AND (d.state = 'delayed'::text))) passed ON (true))
  WHERE ((n.ended_at IS NULL) AND (( SELECT scope.sees_all
           FROM relaybox_internal.acting_role scope) OR (n.subscription_id IN ( SELECT b.subscription_id
           FROM relaybox_internal.bound_subscriptions b
          WHERE (b.ended_at IS NULL)))));

COMMENT ON VIEW relaybox.subscriptions IS 'The open subscriptions of this store, second cursors of replays included. For each lane: relaybox.lag.';

COMMENT ON COLUMN relaybox.subscriptions.subscription IS 'Its name.';

COMMENT ON COLUMN relaybox.subscriptions.stream IS 'The stream that it reads.';

COMMENT ON COLUMN relaybox.subscriptions.topic IS 'The one topic that it reads; null: all of the stream.';

COMMENT ON COLUMN relaybox.subscriptions.lanes IS 'Number of lanes.';

COMMENT ON COLUMN relaybox.subscriptions.lane_by IS 'sender or key: what decides the lane of a message.';

COMMENT ON COLUMN relaybox.subscriptions.first_stream_position IS 'First stream position that it reads.';

COMMENT ON COLUMN relaybox.subscriptions.through_stream_position IS 'Last stream position that a second cursor reads; null: no end.';

COMMENT ON COLUMN relaybox.subscriptions.replay_of IS 'The subscription that this second cursor replays; null: no second cursor.';

COMMENT ON COLUMN relaybox.subscriptions.rows_per_second IS 'Limit of a replay; null: none.';

COMMENT ON COLUMN relaybox.subscriptions.nack_limit IS 'Number of nacks after which a message becomes a dead letter.';

COMMENT ON COLUMN relaybox.subscriptions.crash_limit IS 'Number of fetches without ack or nack after which messages are fetched in smaller pieces, to find the one that kills its worker.';

COMMENT ON COLUMN relaybox.subscriptions.hold_sender IS 'True: later messages of a sender wait behind its dead letter.';

COMMENT ON COLUMN relaybox.subscriptions.retry_seconds IS 'How long a lane waits after a nack.';

COMMENT ON COLUMN relaybox.subscriptions.lease_seconds IS 'How long a fetch belongs to its worker.';

COMMENT ON COLUMN relaybox.subscriptions.delayed IS 'hold, pass or ignore: what becomes of the messages behind one that is not due.';

COMMENT ON COLUMN relaybox.subscriptions.subscribed_at IS 'When it was made.';

COMMENT ON COLUMN relaybox.subscriptions.subscribed_by IS 'The login that made it; counts for the quota of this login.';

COMMENT ON COLUMN relaybox.subscriptions.done_stream_position IS 'Every lane has acknowledged up to here.';

COMMENT ON COLUMN relaybox.subscriptions.lane_stream_positions IS 'For each lane: acknowledged up to here.';

COMMENT ON COLUMN relaybox.subscriptions.replaying IS 'True: a lane went back and has not come forward again.';

COMMENT ON COLUMN relaybox.subscriptions.leased_lanes IS 'Number of lanes that a worker has now.';

COMMENT ON COLUMN relaybox.subscriptions.moved_at IS 'When any lane moved last.';

COMMENT ON COLUMN relaybox.subscriptions.held_lanes IS 'Number of lanes that wait until a delayed message is due.';

COMMENT ON COLUMN relaybox.subscriptions.delayed_messages IS 'Number of messages that were passed, since they were not due, and come when they are.';

COMMENT ON COLUMN relaybox.subscriptions.last_stream_position IS 'Newest stream position that it can read.';

COMMENT ON COLUMN relaybox.subscriptions.stream_positions_behind IS 'Stream positions between done_stream_position and last_stream_position.';

COMMENT ON COLUMN relaybox.subscriptions.detached_stream_positions IS 'Of these, stream positions whose messages are in detached files: relaybox attach brings them back.';

COMMENT ON COLUMN relaybox.subscriptions.dead_letters IS 'Number of its open dead letters.';

COMMENT ON COLUMN relaybox.subscriptions.dead_letter_stream_positions IS 'Their stream positions.';

COMMENT ON COLUMN relaybox.subscriptions.due_at IS 'When the next delayed message is due, as the newest fetches found; null: none is known.';

CREATE VIEW relaybox_internal.acting_role AS
 WITH session AS (
         SELECT
                CASE
                    WHEN (current_setting('role'::text) = 'none'::text) THEN SESSION_USER
                    WHEN pg_has_role(SESSION_USER, (to_regrole(quote_ident(current_setting('role'::text))))::oid, 'member'::text) THEN (current_setting('role'::text))::name
                    ELSE NULL::name
                END AS caller
        )
 SELECT session.caller,
    ((NOT s.bind_subscriptions) OR COALESCE(has_table_privilege(session.caller, ('relaybox_internal.subscription'::regclass)::oid, 'insert'::text), false)) AS acts_on_all,
    ((NOT s.bind_subscriptions) OR COALESCE((has_table_privilege(session.caller, ('relaybox_internal.subscription'::regclass)::oid, 'select'::text) AND has_table_privilege(CURRENT_USER, ('relaybox_internal.subscription'::regclass)::oid, 'select'::text)), false)) AS sees_all,
    (s.require_approval AND (NOT COALESCE(has_table_privilege(session.caller, ('relaybox_internal.subscription'::regclass)::oid, 'insert'::text), false))) AS needs_approval
   FROM (relaybox_internal.store s
     CROSS JOIN session);

COMMENT ON VIEW relaybox_internal.acting_role IS 'Whether the role of this session sees, and acts on, every subscription of this store, and whether it needs an approval to have messages given again.';

CREATE TABLE relaybox_internal.adopted_row (
    adoption_id integer NOT NULL,
    row_number bigint NOT NULL,
    message_id uuid NOT NULL,
    topic text NOT NULL,
    sender text NOT NULL,
    key text,
    headers jsonb,
    payload text,
    payload_bytes bytea
);

COMMENT ON TABLE relaybox_internal.adopted_row IS 'Messages of an adopted table that wait for the end of its backlog, in this order.';

ALTER TABLE relaybox_internal.adopted_row ALTER COLUMN row_number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME relaybox_internal.adopted_row_row_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE ONLY relaybox_internal.adopted_row
    ADD CONSTRAINT adopted_row_pkey PRIMARY KEY (adoption_id, row_number);

CREATE TABLE relaybox_internal.adopted_table (
    adoption_id integer NOT NULL,
    table_name text NOT NULL,
    mapping jsonb NOT NULL,
    on_unmapped text NOT NULL,
    state text NOT NULL,
    template integer NOT NULL,
    backlog_count bigint,
    adopted_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    adopted_by text DEFAULT SESSION_USER NOT NULL,
    CONSTRAINT adopted_table_state_is_known CHECK ((state = ANY (ARRAY['backlog'::text, 'sending'::text]))),
    CONSTRAINT on_unmapped_is_known CHECK ((on_unmapped = ANY (ARRAY['fail'::text, 'set_aside'::text])))
);

COMMENT ON TABLE relaybox_internal.adopted_table IS 'Outbox tables of applications. A trigger sends what is inserted into them. `relaybox adopt` writes it, `relaybox unadopt` removes it.';

COMMENT ON COLUMN relaybox_internal.adopted_table.table_name IS 'SCHEMA.TABLE when it was adopted. The trigger stays with a table that is renamed.';

COMMENT ON COLUMN relaybox_internal.adopted_table.mapping IS 'Which column is which part of a message.';

COMMENT ON COLUMN relaybox_internal.adopted_table.on_unmapped IS 'For a row that can''t be a message: fail, or set_aside.';

COMMENT ON COLUMN relaybox_internal.adopted_table.state IS 'backlog: rows of before the adoption are being moved, and later ones wait behind them. sending: the trigger writes into the outbox.';

COMMENT ON COLUMN relaybox_internal.adopted_table.template IS 'Of the functions of the table: an init makes older ones anew.';

COMMENT ON COLUMN relaybox_internal.adopted_table.backlog_count IS 'How many rows of before the adoption were taken. Null: none were asked for.';

ALTER TABLE relaybox_internal.adopted_table ALTER COLUMN adoption_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME relaybox_internal.adopted_table_adoption_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE ONLY relaybox_internal.adopted_table
    ADD CONSTRAINT adopted_table_once UNIQUE (table_name);

ALTER TABLE ONLY relaybox_internal.adopted_table
    ADD CONSTRAINT adopted_table_pkey PRIMARY KEY (adoption_id);

CREATE VIEW relaybox_internal.allowed_streams AS
 SELECT s.stream_id,
    s.stream,
    min(b.bound_at) AS bound_at
   FROM ((relaybox_internal.stream_role b
     JOIN relaybox_internal.stream s ON ((s.stream = b.stream)))
     CROSS JOIN relaybox_internal.acting_role scope)
  WHERE (pg_has_role(scope.caller, (to_regrole('relaybox_operator'::text))::oid, 'usage'::text) AND pg_has_role(scope.caller, (to_regrole(quote_ident((b.role_name)::text)))::oid, 'usage'::text) AND (pg_has_role(CURRENT_USER, (to_regrole(quote_ident((b.role_name)::text)))::oid, 'usage'::text) OR has_table_privilege(CURRENT_USER, ('relaybox_internal.subscription'::regclass)::oid, 'select'::text)))
  GROUP BY s.stream_id, s.stream;

COMMENT ON VIEW relaybox_internal.allowed_streams IS 'The streams that the role of this session is an operator of.';

CREATE VIEW relaybox_internal.allowed_topics AS
 SELECT '*'::text AS topic
   FROM (relaybox_internal.store s
     CROSS JOIN relaybox_internal.acting_role scope)
  WHERE ((NOT s.bind_topics) OR (COALESCE(has_table_privilege(scope.caller, ('relaybox_internal.subscription'::regclass)::oid, 'select'::text), false) AND has_table_privilege(CURRENT_USER, ('relaybox_internal.subscription'::regclass)::oid, 'select'::text)))
UNION ALL
 SELECT g.topic
   FROM (relaybox_internal.topic_role g
     CROSS JOIN relaybox_internal.acting_role scope)
  WHERE (pg_has_role(scope.caller, (to_regrole(quote_ident((g.role_name)::text)))::oid, 'usage'::text) AND (pg_has_role(CURRENT_USER, (to_regrole(quote_ident((g.role_name)::text)))::oid, 'usage'::text) OR has_table_privilege(CURRENT_USER, ('relaybox_internal.subscription'::regclass)::oid, 'select'::text)));

COMMENT ON VIEW relaybox_internal.allowed_topics IS 'The topics whose messages the role of this session may read; *: every topic.';

CREATE TABLE relaybox_internal.arrival (
    log_id integer NOT NULL,
    batch bigint NOT NULL,
    plan_id uuid NOT NULL,
    first_position bigint NOT NULL,
    last_position bigint NOT NULL,
    row_count bigint NOT NULL,
    slice_count integer NOT NULL,
    source_system_identifier bigint NOT NULL,
    source_timeline integer NOT NULL,
    published_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    has_own_indexes boolean,
    set_aside_count bigint,
    CONSTRAINT arrival_positions_dense CHECK ((((last_position - first_position) + 1) = row_count))
);

COMMENT ON TABLE relaybox_internal.arrival IS 'Destination ledger: the published batches. Consumers may read up to the last position.';

COMMENT ON COLUMN relaybox_internal.arrival.has_own_indexes IS 'Whether a message of the batch has an index of its own, or should have. Null: published before this was recorded.';

COMMENT ON COLUMN relaybox_internal.arrival.set_aside_count IS 'How many of its messages do not conform to their schema and are not to be delivered. Null: none.';

ALTER TABLE ONLY relaybox_internal.arrival
    ADD CONSTRAINT arrival_pkey PRIMARY KEY (log_id, batch);

CREATE UNIQUE INDEX arrival_last_position ON relaybox_internal.arrival USING btree (log_id, last_position);

ALTER TABLE ONLY relaybox_internal.arrival
    ADD CONSTRAINT arrival_of_a_hop FOREIGN KEY (log_id) REFERENCES relaybox_internal.hop_in(log_id);

CREATE TABLE relaybox_internal.attempt (
    hop text NOT NULL,
    batch bigint NOT NULL,
    attempt bigint NOT NULL,
    recorded_by text NOT NULL,
    application text,
    began_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

COMMENT ON TABLE relaybox_internal.attempt IS 'Which driver tried to transfer which batch, as which Spark application, and when. The protocol does not read it.';

ALTER TABLE ONLY relaybox_internal.attempt
    ADD CONSTRAINT attempt_pkey PRIMARY KEY (hop, batch, attempt);

CREATE TABLE relaybox_internal.attestation (
    attested_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    attested_by text NOT NULL,
    reason text NOT NULL,
    from_system_identifier bigint NOT NULL,
    from_timeline integer NOT NULL,
    system_identifier bigint NOT NULL,
    timeline integer NOT NULL
);

COMMENT ON TABLE relaybox_internal.attestation IS 'Who stated that another cluster, or another timeline, is this store without any loss.';

ALTER TABLE ONLY relaybox_internal.attestation
    ADD CONSTRAINT attestation_pkey PRIMARY KEY (attested_at);

CREATE TABLE relaybox_internal.backlog (
    hop text NOT NULL,
    backlog_id bigint NOT NULL,
    topics text[] NOT NULL,
    lower pg_snapshot NOT NULL,
    upper pg_snapshot,
    seqs int8multirange NOT NULL,
    state text DEFAULT 'routed'::text NOT NULL,
    changed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    retired_by text,
    retired_reason text,
    CONSTRAINT backlog_not_empty CHECK (((cardinality(topics) > 0) AND (seqs <> '{}'::int8multirange))),
    CONSTRAINT backlog_retired_by_somebody CHECK (((state = 'retired'::text) = (retired_by IS NOT NULL))),
    CONSTRAINT backlog_retired_with_reason CHECK (((state = 'retired'::text) = (retired_reason IS NOT NULL))),
    CONSTRAINT backlog_state_is_known CHECK ((state = ANY (ARRAY['routed'::text, 'unrouted'::text, 'retired'::text]))),
    CONSTRAINT backlog_without_end_is_unrouted CHECK (((upper IS NOT NULL) OR (state = 'unrouted'::text)))
);

COMMENT ON TABLE relaybox_internal.backlog IS 'Pieces of the outbox that no batch of the hop has read: messages of these topics, in seqs, that upper sees and lower does not. Pieces are disjoint.';

COMMENT ON COLUMN relaybox_internal.backlog.upper IS 'Null: all rows that lower does not see, now and later.';

COMMENT ON COLUMN relaybox_internal.backlog.state IS 'routed: the next batches read it, in the order of backlog_id. unrouted: the hop lost these topics, the messages are kept. retired: an operator discarded it, with a reason.';

ALTER TABLE relaybox_internal.backlog ALTER COLUMN backlog_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME relaybox_internal.backlog_backlog_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE ONLY relaybox_internal.backlog
    ADD CONSTRAINT backlog_pkey PRIMARY KEY (hop, backlog_id);

ALTER TABLE ONLY relaybox_internal.backlog
    ADD CONSTRAINT backlog_of_a_hop FOREIGN KEY (hop) REFERENCES relaybox_internal.hop_out(hop);

CREATE TABLE relaybox_internal.batch (
    hop text NOT NULL,
    batch bigint NOT NULL,
    plan_id uuid DEFAULT gen_random_uuid() NOT NULL,
    topics text[],
    lower pg_snapshot,
    upper pg_snapshot,
    pair_last_seq bigint,
    pair_exhausted boolean NOT NULL,
    reads_after bigint NOT NULL,
    reads_through bigint NOT NULL,
    first_position bigint NOT NULL,
    last_position bigint NOT NULL,
    row_count bigint NOT NULL,
    slices jsonb NOT NULL,
    system_identifier bigint NOT NULL,
    timeline integer NOT NULL,
    next_xid xid8 NOT NULL,
    planned_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    generation integer DEFAULT 1 NOT NULL,
    adopted boolean DEFAULT false NOT NULL,
    xid xid8 DEFAULT pg_current_xact_id() NOT NULL,
    digests text[],
    CONSTRAINT batch_has_slices CHECK ((adopted OR (jsonb_array_length(slices) > 0))),
    CONSTRAINT batch_positions_dense CHECK (((((last_position - first_position) + 1) = row_count) AND (first_position >= 1))),
    CONSTRAINT batch_range_not_empty CHECK (((batch >= 1) AND (row_count >= 1) AND (adopted OR (reads_through > reads_after)))),
    CONSTRAINT one_digest_per_slice CHECK ((cardinality(digests) = jsonb_array_length(slices))),
    CONSTRAINT pair_is_whole CHECK ((((lower IS NULL) = (upper IS NULL)) AND ((upper IS NULL) = (pair_last_seq IS NULL)))),
    CONSTRAINT pair_moves_forward CHECK (((pg_snapshot_xmin(upper) >= pg_snapshot_xmin(lower)) AND (pg_snapshot_xmax(upper) >= pg_snapshot_xmax(lower))))
);

COMMENT ON TABLE relaybox_internal.batch IS 'Source ledger: the plan of each batch. A planned batch never changes.';

COMMENT ON COLUMN relaybox_internal.batch.adopted IS 'The ledger that published this batch is lost. The destination has the batch; its plan cannot be read again.';

COMMENT ON COLUMN relaybox_internal.batch.xid IS 'The planning transaction. It equals the row''s xmin unless the store was dumped and reloaded.';

COMMENT ON COLUMN relaybox_internal.batch.digests IS 'Digest of each slice when it was planned, on a route with `integrity: checksum`.';

ALTER TABLE ONLY relaybox_internal.batch
    ADD CONSTRAINT batch_pkey PRIMARY KEY (hop, batch);

CREATE UNIQUE INDEX batch_last_position ON relaybox_internal.batch USING btree (hop, last_position);

CREATE INDEX batch_topics ON relaybox_internal.batch USING btree (hop, hash_array_extended(topics, (0)::bigint));

ALTER TABLE ONLY relaybox_internal.batch
    ADD CONSTRAINT batch_of_a_hop FOREIGN KEY (hop) REFERENCES relaybox_internal.hop_out(hop);

CREATE VIEW relaybox_internal.bound_subscriptions AS
 WITH bound AS (
         SELECT b.subscription,
            b.bound_at
           FROM (relaybox_internal.subscription_role b
             CROSS JOIN relaybox_internal.acting_role scope)
          WHERE (pg_has_role(scope.caller, (to_regrole(quote_ident((b.role_name)::text)))::oid, 'usage'::text) AND (pg_has_role(CURRENT_USER, (to_regrole(quote_ident((b.role_name)::text)))::oid, 'usage'::text) OR has_table_privilege(CURRENT_USER, ('relaybox_internal.subscription'::regclass)::oid, 'select'::text)))
        )
 SELECT n.subscription_id,
    n.subscription,
    n.ended_at
   FROM (bound b
     JOIN relaybox_internal.subscription n ON ((n.subscription = b.subscription)))
  WHERE ((n.replay_of IS NULL) AND ((n.ended_at IS NULL) OR (b.bound_at <= n.ended_at)))
UNION ALL
 SELECT n.subscription_id,
    n.subscription,
    n.ended_at
   FROM ((bound b
     JOIN relaybox_internal.subscription parent ON ((parent.subscription = b.subscription)))
     JOIN relaybox_internal.subscription n ON ((n.replay_of = parent.subscription_id)))
  WHERE ((n.ended_at IS NULL) OR (b.bound_at <= n.ended_at))
UNION ALL
 SELECT n.subscription_id,
    n.subscription,
    n.ended_at
   FROM (relaybox_internal.allowed_streams o
     JOIN relaybox_internal.subscription n ON ((n.stream_id = o.stream_id)));

COMMENT ON VIEW relaybox_internal.bound_subscriptions IS 'The subscriptions that the role of this session is bound to, or is an operator of.';

CREATE TABLE relaybox_internal.check_function (
    function_name text NOT NULL,
    text_digest text NOT NULL,
    body_digest text NOT NULL,
    made_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

COMMENT ON TABLE relaybox_internal.check_function IS 'The functions of relaybox_internal that init made of JSON Schemas.';

COMMENT ON COLUMN relaybox_internal.check_function.text_digest IS 'Of the statements that made it.';

COMMENT ON COLUMN relaybox_internal.check_function.body_digest IS 'Of what Postgres had of it then: another one was put there by hand.';

ALTER TABLE ONLY relaybox_internal.check_function
    ADD CONSTRAINT check_function_pkey PRIMARY KEY (function_name);

CREATE TABLE relaybox_internal.checked_topic (
    topic text NOT NULL,
    outbox text NOT NULL,
    newest_version integer NOT NULL,
    first_hop text DEFAULT 'none'::text NOT NULL,
    CONSTRAINT first_hop_check_is_known CHECK ((first_hop = ANY (ARRAY['none'::text, 'warn'::text, 'set_aside'::text]))),
    CONSTRAINT newest_version_positive CHECK ((newest_version >= 1)),
    CONSTRAINT outbox_check_is_known CHECK ((outbox = ANY (ARRAY['none'::text, 'refuse'::text])))
);

COMMENT ON TABLE relaybox_internal.checked_topic IS 'Topics whose messages this store checks by their JSON Schemas: schema_checks of relaybox.yaml. Init writes it.';

COMMENT ON COLUMN relaybox_internal.checked_topic.outbox IS 'refuse: the outbox refuses a message that does not conform.';

COMMENT ON COLUMN relaybox_internal.checked_topic.newest_version IS 'Versions are 1 to this one.';

COMMENT ON COLUMN relaybox_internal.checked_topic.first_hop IS 'warn: a message that does not conform when it arrives is noted. set_aside: it is not delivered.';

ALTER TABLE ONLY relaybox_internal.checked_topic
    ADD CONSTRAINT checked_topic_pkey PRIMARY KEY (topic);

CREATE TABLE relaybox_internal.confirmation (
    hop text NOT NULL,
    state text NOT NULL,
    through_position bigint NOT NULL,
    through_batch bigint NOT NULL,
    happened_at timestamp with time zone NOT NULL,
    recorded_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    recorded_by text NOT NULL,
    CONSTRAINT state_is_known CHECK ((state = ANY (ARRAY['received'::text, 'processed'::text, 'settled'::text])))
);

COMMENT ON TABLE relaybox_internal.confirmation IS 'Source ledger: the last position of a hop that the stores further down the route received, processed or settled.';

ALTER TABLE ONLY relaybox_internal.confirmation
    ADD CONSTRAINT confirmation_pkey PRIMARY KEY (hop, state, through_position);

CREATE TABLE relaybox_internal.consumer_action (
    action_id bigint NOT NULL,
    subscription text NOT NULL,
    action text NOT NULL,
    detail jsonb NOT NULL,
    reason text,
    done_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    done_by text DEFAULT SESSION_USER NOT NULL,
    subscription_id integer,
    CONSTRAINT action_is_known CHECK ((action = ANY (ARRAY['subscribe'::text, 'unsubscribe'::text, 'replay'::text, 'cancel_replay'::text, 'redrive'::text, 'drop'::text, 'fetch_one_at_a_time'::text, 'change_delayed'::text])))
);

COMMENT ON TABLE relaybox_internal.consumer_action IS 'What people and consumers did to subscriptions, written in the transaction that did it. To read it: relaybox.consumer_action.';

COMMENT ON COLUMN relaybox_internal.consumer_action.action_id IS 'Number of the action.';

COMMENT ON COLUMN relaybox_internal.consumer_action.subscription IS 'The subscription; for a dead letter of a stream: the stream.';

COMMENT ON COLUMN relaybox_internal.consumer_action.action IS 'subscribe, unsubscribe, replay, cancel_replay, redrive, drop, fetch_one_at_a_time or change_delayed.';

COMMENT ON COLUMN relaybox_internal.consumer_action.detail IS 'The values of the action; on_behalf_of: the person for whom an operator''s login acted.';

COMMENT ON COLUMN relaybox_internal.consumer_action.reason IS 'Why, as given.';

COMMENT ON COLUMN relaybox_internal.consumer_action.done_at IS 'When.';

COMMENT ON COLUMN relaybox_internal.consumer_action.done_by IS 'The login.';

COMMENT ON COLUMN relaybox_internal.consumer_action.subscription_id IS 'The subscription. Null: a dead letter of a stream, or recorded before this column was added.';

ALTER TABLE relaybox_internal.consumer_action ALTER COLUMN action_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME relaybox_internal.consumer_action_action_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE ONLY relaybox_internal.consumer_action
    ADD CONSTRAINT consumer_action_pkey PRIMARY KEY (action_id);

CREATE TABLE relaybox_internal.consumer_quota (
    role_name name NOT NULL,
    subscriptions integer,
    lanes integer,
    checked_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    topics integer,
    CONSTRAINT quota_not_negative CHECK (((subscriptions >= 0) AND (lanes >= 0))),
    CONSTRAINT topics_not_negative CHECK ((topics >= 0))
);

COMMENT ON TABLE relaybox_internal.consumer_quota IS 'Database roles that have subscriptions, or a quota of their own.';

COMMENT ON COLUMN relaybox_internal.consumer_quota.subscriptions IS 'Null: store.subscriptions_per_role applies.';

COMMENT ON COLUMN relaybox_internal.consumer_quota.lanes IS 'Null: store.lanes_per_role applies.';

COMMENT ON COLUMN relaybox_internal.consumer_quota.topics IS 'Null: store.topics_per_role applies.';

ALTER TABLE ONLY relaybox_internal.consumer_quota
    ADD CONSTRAINT consumer_quota_pkey PRIMARY KEY (role_name);

CREATE TABLE relaybox_internal.cursor (
    subscription_id integer NOT NULL,
    lane integer NOT NULL,
    version bigint NOT NULL,
    done_stream_position bigint NOT NULL,
    fetched_stream_position bigint NOT NULL,
    redrive_stream_position bigint,
    fetch_count integer DEFAULT 0 NOT NULL,
    suspect_stream_position bigint DEFAULT 0 NOT NULL,
    suspect_rows integer,
    worker text,
    leased_until timestamp with time zone,
    wait_until timestamp with time zone,
    replay_stream_position bigint DEFAULT 0 NOT NULL,
    rate_from timestamp with time zone,
    moved_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    token text,
    fetched_in xid8,
    first_fetched_at timestamp with time zone,
    due_at timestamp with time zone,
    CONSTRAINT a_lease_has_a_worker CHECK (((worker IS NULL) = (leased_until IS NULL))),
    CONSTRAINT done_is_not_beyond_fetched CHECK ((fetched_stream_position >= done_stream_position))
);

COMMENT ON TABLE relaybox_internal.cursor IS 'Where each lane is: one row for each of its newest movements. The newest version counts: relaybox_internal.lane_cursors.';

COMMENT ON COLUMN relaybox_internal.cursor.done_stream_position IS 'Every message of the lane up to this one was acknowledged or set aside.';

COMMENT ON COLUMN relaybox_internal.cursor.fetched_stream_position IS 'Messages beyond done_stream_position up to this one are fetched and not acknowledged. The next fetch returns them again.';

COMMENT ON COLUMN relaybox_internal.cursor.redrive_stream_position IS 'The messages fetched now are redriven dead letters up to this stream position.';

COMMENT ON COLUMN relaybox_internal.cursor.fetch_count IS 'How many times these messages were fetched without ack or nack.';

COMMENT ON COLUMN relaybox_internal.cursor.suspect_stream_position IS 'Up to here a fetch returns only suspect_rows messages: one of them may kill its worker.';

COMMENT ON COLUMN relaybox_internal.cursor.replay_stream_position IS 'Messages up to this one were acknowledged before. A replay reads them again.';

COMMENT ON COLUMN relaybox_internal.cursor.rate_from IS 'Since when a replay with rows_per_second saves up rows.';

COMMENT ON COLUMN relaybox_internal.cursor.token IS 'Token of the newest fetch of the lane: fetch returns it, and ack, nack and release need it. Null: no fetch since the lane was moved.';

COMMENT ON COLUMN relaybox_internal.cursor.fetched_in IS 'The transaction of that fetch. Within it an acknowledgement needs no token.';

COMMENT ON COLUMN relaybox_internal.cursor.first_fetched_at IS 'When these messages were fetched for the first time. A smaller fetch of them keeps it.';

COMMENT ON COLUMN relaybox_internal.cursor.due_at IS 'When the message after done_stream_position is due, if the newest fetch found that it is not: the lane is held until then.';

ALTER TABLE ONLY relaybox_internal.cursor
    ADD CONSTRAINT cursor_pkey PRIMARY KEY (subscription_id, lane, version);

CREATE TABLE relaybox_internal.dead_letter (
    stream_id integer NOT NULL,
    log_id integer NOT NULL,
    log_position bigint NOT NULL,
    reason text NOT NULL,
    detail text,
    first_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    dead_letter_id bigint NOT NULL,
    subscription_id integer,
    lane integer,
    stream_position bigint,
    sender text,
    attempts integer DEFAULT 1 NOT NULL,
    last_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    last_by text DEFAULT SESSION_USER NOT NULL,
    state text DEFAULT 'open'::text NOT NULL,
    resolved_at timestamp with time zone,
    resolved_by text,
    resolved_reason text,
    acknowledged_before boolean DEFAULT false NOT NULL,
    given_ahead boolean DEFAULT false NOT NULL,
    due_at timestamp with time zone,
    CONSTRAINT dead_letter_of_a_lane CHECK ((num_nulls(subscription_id, lane, stream_position, sender) = ANY (ARRAY[0, 4]))),
    CONSTRAINT state_is_known CHECK ((state = ANY (ARRAY['open'::text, 'redriving'::text, 'redriven'::text, 'dropped'::text, 'delayed'::text])))
);

COMMENT ON TABLE relaybox_internal.dead_letter IS 'Messages that a stream or a subscription set aside. To read them: relaybox.dead_letters.';

COMMENT ON COLUMN relaybox_internal.dead_letter.reason IS 'One word. Of a subscription: refused (by nack), killed_its_worker, expired, waits_behind, or delayed (not due when its lane passed it). Of a stream: why it did not deliver the message.';

COMMENT ON COLUMN relaybox_internal.dead_letter.detail IS 'A text. For refused: the reason that the last nack gave.';

COMMENT ON COLUMN relaybox_internal.dead_letter.first_at IS 'Of a subscription: when the message was fetched first, if that is recorded; a message that waits behind another one: when it was set aside. Of a stream: when it was set aside.';

COMMENT ON COLUMN relaybox_internal.dead_letter.acknowledged_before IS 'The consumer had acknowledged the message before a replay returned it again. The dead letter does not delay settling.';

COMMENT ON COLUMN relaybox_internal.dead_letter.given_ahead IS 'It was redriven and acknowledged before the cursor of its lane reached it. This pass of the cursor does not return it again.';

COMMENT ON COLUMN relaybox_internal.dead_letter.due_at IS 'When the message is due, of one that was delayed and passed. Until then its state is delayed.';

ALTER TABLE relaybox_internal.dead_letter ALTER COLUMN dead_letter_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME relaybox_internal.dead_letter_dead_letter_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE ONLY relaybox_internal.dead_letter
    ADD CONSTRAINT dead_letter_pkey PRIMARY KEY (dead_letter_id);

CREATE INDEX dead_letter_delayed ON relaybox_internal.dead_letter USING btree (subscription_id, lane, due_at) WHERE (state = 'delayed'::text);

CREATE UNIQUE INDEX dead_letter_of_a_stream ON relaybox_internal.dead_letter USING btree (log_id, log_position) WHERE (subscription_id IS NULL);

CREATE UNIQUE INDEX dead_letter_of_a_subscription ON relaybox_internal.dead_letter USING btree (subscription_id, stream_position);

CREATE INDEX dead_letter_stream ON relaybox_internal.dead_letter USING btree (stream_id);

CREATE INDEX dead_letter_unresolved ON relaybox_internal.dead_letter USING btree (subscription_id, lane, stream_position) WHERE (state = ANY (ARRAY['open'::text, 'redriving'::text]));

ALTER TABLE ONLY relaybox_internal.dead_letter
    ADD CONSTRAINT dead_letter_log_id_fkey FOREIGN KEY (log_id) REFERENCES relaybox_internal.hop_in(log_id);

ALTER TABLE ONLY relaybox_internal.dead_letter
    ADD CONSTRAINT dead_letter_stream_id_fkey FOREIGN KEY (stream_id) REFERENCES relaybox_internal.stream(stream_id);

ALTER TABLE ONLY relaybox_internal.dead_letter
    ADD CONSTRAINT dead_letter_subscription_id_fkey FOREIGN KEY (subscription_id) REFERENCES relaybox_internal.subscription(subscription_id);

CREATE TABLE relaybox_internal.decision (
    log_id integer NOT NULL,
    batch bigint NOT NULL,
    first_arrival_seq bigint NOT NULL,
    row_count bigint NOT NULL,
    duplicate_count bigint NOT NULL,
    set_aside_count bigint NOT NULL,
    delivered_count bigint NOT NULL,
    held_after bigint NOT NULL,
    last_stream_position bigint NOT NULL,
    duplicates bigint[],
    in_order boolean NOT NULL,
    decided_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    resolved_position bigint
);

COMMENT ON TABLE relaybox_internal.decision IS 'For each published batch: how many messages were delivered, held, set aside or found to be duplicates.';

COMMENT ON COLUMN relaybox_internal.decision.first_arrival_seq IS 'Arrival number of the first row of the batch in its stream.';

COMMENT ON COLUMN relaybox_internal.decision.delivered_count IS 'Messages that this batch made deliverable, with those that were held before.';

COMMENT ON COLUMN relaybox_internal.decision.held_after IS 'Messages of the stream that are held after this batch.';

COMMENT ON COLUMN relaybox_internal.decision.duplicates IS 'Log positions of the rows that are duplicates.';

COMMENT ON COLUMN relaybox_internal.decision.resolved_position IS 'When this was decided, every message of the log up to this position was delivered, dropped or set aside. Null: not recorded.';

ALTER TABLE ONLY relaybox_internal.decision
    ADD CONSTRAINT decision_pkey PRIMARY KEY (log_id, batch);

CREATE INDEX decision_decided_at ON relaybox_internal.decision USING btree (log_id, decided_at, last_stream_position);

CREATE INDEX decision_last_stream_position ON relaybox_internal.decision USING btree (log_id, last_stream_position);

ALTER TABLE ONLY relaybox_internal.decision
    ADD CONSTRAINT decision_log_id_fkey FOREIGN KEY (log_id) REFERENCES relaybox_internal.hop_in(log_id);

CREATE TABLE relaybox_internal.delivery (
    stream_id integer NOT NULL,
    first_stream_position bigint NOT NULL,
    last_stream_position bigint NOT NULL,
    log_id integer NOT NULL,
    first_position bigint NOT NULL,
    log_positions bigint[],
    delivered_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT delivery_names_each_position CHECK (((log_positions IS NULL) OR (cardinality(log_positions) = ((last_stream_position - first_stream_position) + 1)))),
    CONSTRAINT delivery_not_empty CHECK (((first_stream_position >= 1) AND (last_stream_position >= first_stream_position)))
);

COMMENT ON TABLE relaybox_internal.delivery IS 'Runs of stream positions, and the positions in a log of the messages that have them.';

COMMENT ON COLUMN relaybox_internal.delivery.log_positions IS 'Log position of each message of the run. Null: consecutive positions from first_position.';

ALTER TABLE ONLY relaybox_internal.delivery
    ADD CONSTRAINT delivery_pkey PRIMARY KEY (stream_id, last_stream_position);

ALTER TABLE ONLY relaybox_internal.delivery
    ADD CONSTRAINT delivery_stream_id_fkey FOREIGN KEY (stream_id) REFERENCES relaybox_internal.stream(stream_id);

CREATE TABLE relaybox_internal.derivation (
    derivation_id integer NOT NULL,
    route text NOT NULL,
    version integer NOT NULL,
    subscription_id integer NOT NULL,
    source_name text NOT NULL,
    source_digest text NOT NULL,
    begun_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    begun_by text DEFAULT SESSION_USER NOT NULL,
    CONSTRAINT derivation_version_positive CHECK ((version >= 1))
);

COMMENT ON TABLE relaybox_internal.derivation IS 'Versions of derivations: a route whose messages are made from those of a stream of this store. The newest version of a route is the one that runs.';

COMMENT ON COLUMN relaybox_internal.derivation.subscription_id IS 'The subscription that reads the stream for this version.';

COMMENT ON COLUMN relaybox_internal.derivation.source_name IS 'What makes the messages: package.module:function, or sql.';

COMMENT ON COLUMN relaybox_internal.derivation.source_digest IS 'Digest of the text of that function''s module, or of the SQL.';

ALTER TABLE relaybox_internal.derivation ALTER COLUMN derivation_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME relaybox_internal.derivation_derivation_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE ONLY relaybox_internal.derivation
    ADD CONSTRAINT derivation_pkey PRIMARY KEY (derivation_id);

ALTER TABLE ONLY relaybox_internal.derivation
    ADD CONSTRAINT derivation_version_once UNIQUE (route, version);

ALTER TABLE ONLY relaybox_internal.derivation
    ADD CONSTRAINT derivation_subscription_id_fkey FOREIGN KEY (subscription_id) REFERENCES relaybox_internal.subscription(subscription_id);

CREATE TABLE relaybox_internal.derivation_attempt (
    derivation_id integer NOT NULL,
    attempt bigint NOT NULL,
    token text NOT NULL,
    stream_positions int8multirange NOT NULL,
    message_count bigint NOT NULL,
    begun_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    begun_by text NOT NULL,
    state text DEFAULT 'open'::text NOT NULL,
    ended_at timestamp with time zone,
    derived_count bigint,
    first_seq bigint,
    last_seq bigint,
    reason text,
    CONSTRAINT derivation_attempt_ends CHECK (((state = 'open'::text) = (ended_at IS NULL))),
    CONSTRAINT derivation_attempt_state_is_known CHECK ((state = ANY (ARRAY['open'::text, 'published'::text, 'failed'::text, 'superseded'::text]))),
    CONSTRAINT published_attempts_alone_have_messages CHECK ((((state = 'published'::text) = (derived_count IS NOT NULL)) AND ((COALESCE(derived_count, (0)::bigint) > 0) = (first_seq IS NOT NULL)) AND ((first_seq IS NULL) = (last_seq IS NULL))))
);

COMMENT ON TABLE relaybox_internal.derivation_attempt IS 'Every attempt to derive messages: written before the function is called. An attempt that has published has acknowledged its messages in the same transaction.';

COMMENT ON COLUMN relaybox_internal.derivation_attempt.token IS 'Of the fetch. The acknowledgement needs it, so a later attempt ends this one.';

COMMENT ON COLUMN relaybox_internal.derivation_attempt.stream_positions IS 'The messages that the function gets.';

COMMENT ON COLUMN relaybox_internal.derivation_attempt.message_count IS 'How many these are.';

COMMENT ON COLUMN relaybox_internal.derivation_attempt.derived_count IS 'How many messages it has put into the outbox. Null: it has published nothing.';

COMMENT ON COLUMN relaybox_internal.derivation_attempt.first_seq IS 'The first of them in the outbox. Others may have numbers in between.';

COMMENT ON COLUMN relaybox_internal.derivation_attempt.reason IS 'Why it failed.';

ALTER TABLE ONLY relaybox_internal.derivation_attempt
    ADD CONSTRAINT derivation_attempt_pkey PRIMARY KEY (derivation_id, attempt);

CREATE INDEX derivation_attempt_of_position ON relaybox_internal.derivation_attempt USING gist (stream_positions) WHERE (state = 'published'::text);

CREATE INDEX derivation_attempt_of_seq ON relaybox_internal.derivation_attempt USING btree (derivation_id, first_seq) WHERE (first_seq IS NOT NULL);

CREATE UNIQUE INDEX derivation_attempt_open ON relaybox_internal.derivation_attempt USING btree (derivation_id) WHERE (state = 'open'::text);

ALTER TABLE ONLY relaybox_internal.derivation_attempt
    ADD CONSTRAINT derivation_attempt_derivation_id_fkey FOREIGN KEY (derivation_id) REFERENCES relaybox_internal.derivation(derivation_id);

CREATE TABLE relaybox_internal.derivation_trial (
    trial_id integer NOT NULL,
    derivation_id integer NOT NULL,
    version integer NOT NULL,
    source_name text NOT NULL,
    source_digest text NOT NULL,
    asked_start text,
    asked_through text,
    first_stream_position bigint NOT NULL,
    last_stream_position bigint NOT NULL,
    done_stream_position bigint NOT NULL,
    state text DEFAULT 'open'::text NOT NULL,
    begun_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    begun_by text NOT NULL,
    ended_at timestamp with time zone,
    ended_by text,
    reason text,
    CONSTRAINT derivation_trial_ends CHECK ((((state = 'open'::text) = (ended_at IS NULL)) AND ((ended_at IS NULL) = (ended_by IS NULL)))),
    CONSTRAINT derivation_trial_state_is_known CHECK ((state = ANY (ARRAY['open'::text, 'promoted'::text, 'dropped'::text]))),
    CONSTRAINT derivation_trial_within_its_range CHECK (((first_stream_position <= last_stream_position) AND ((done_stream_position >= (first_stream_position - 1)) AND (done_stream_position <= last_stream_position))))
);

COMMENT ON TABLE relaybox_internal.derivation_trial IS 'Trials of a next version of a derivation: it derives again from a range that the version derivation_id has derived from, and sends nothing.';

COMMENT ON COLUMN relaybox_internal.derivation_trial.derivation_id IS 'The version that goes on meanwhile, with whose messages those of the trial are compared.';

COMMENT ON COLUMN relaybox_internal.derivation_trial.version IS 'The version that is tried.';

COMMENT ON COLUMN relaybox_internal.derivation_trial.source_digest IS 'Digest of the text of the function''s module, or of the SQL. Another one is another trial.';

COMMENT ON COLUMN relaybox_internal.derivation_trial.asked_start IS 'From where it was asked to derive. Null: from the first message that the store keeps.';

COMMENT ON COLUMN relaybox_internal.derivation_trial.asked_through IS 'Through where it was asked to derive. Null: through the newest message.';

COMMENT ON COLUMN relaybox_internal.derivation_trial.first_stream_position IS 'Of the range, as the begin of the trial has pinned it.';

COMMENT ON COLUMN relaybox_internal.derivation_trial.done_stream_position IS 'From the first stream position to this one the trial has derived.';

COMMENT ON COLUMN relaybox_internal.derivation_trial.ended_by IS 'The login, and for whom it acted.';

ALTER TABLE relaybox_internal.derivation_trial ALTER COLUMN trial_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME relaybox_internal.derivation_trial_trial_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE ONLY relaybox_internal.derivation_trial
    ADD CONSTRAINT derivation_trial_pkey PRIMARY KEY (trial_id);

CREATE UNIQUE INDEX derivation_trial_open ON relaybox_internal.derivation_trial USING btree (derivation_id) WHERE (state = 'open'::text);

ALTER TABLE ONLY relaybox_internal.derivation_trial
    ADD CONSTRAINT derivation_trial_derivation_id_fkey FOREIGN KEY (derivation_id) REFERENCES relaybox_internal.derivation(derivation_id);

CREATE TABLE relaybox_internal.derivation_trial_attempt (
    trial_id integer NOT NULL,
    attempt bigint NOT NULL,
    token text NOT NULL,
    first_stream_position bigint NOT NULL,
    last_stream_position bigint NOT NULL,
    begun_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    begun_by text NOT NULL,
    state text DEFAULT 'open'::text NOT NULL,
    ended_at timestamp with time zone,
    derived_count bigint,
    reason text,
    CONSTRAINT derivation_trial_attempt_ends CHECK (((state = 'open'::text) = (ended_at IS NULL))),
    CONSTRAINT derivation_trial_attempt_state_is_known CHECK ((state = ANY (ARRAY['open'::text, 'done'::text, 'failed'::text, 'set_aside'::text, 'superseded'::text]))),
    CONSTRAINT done_attempts_alone_have_messages CHECK (((state = 'done'::text) = (derived_count IS NOT NULL)))
);

COMMENT ON TABLE relaybox_internal.derivation_trial_attempt IS 'Every attempt of a trial: written before the function is called. The messages of attempts that are done count.';

COMMENT ON COLUMN relaybox_internal.derivation_trial_attempt.token IS 'That no other attempt has, also after the store was restored.';

COMMENT ON COLUMN relaybox_internal.derivation_trial_attempt.state IS 'set_aside: the function failed for its only message, and the trial went on after it.';

COMMENT ON COLUMN relaybox_internal.derivation_trial_attempt.reason IS 'Why it failed.';

ALTER TABLE ONLY relaybox_internal.derivation_trial_attempt
    ADD CONSTRAINT derivation_trial_attempt_pkey PRIMARY KEY (trial_id, attempt);

CREATE UNIQUE INDEX derivation_trial_attempt_open ON relaybox_internal.derivation_trial_attempt USING btree (trial_id) WHERE (state = 'open'::text);

ALTER TABLE ONLY relaybox_internal.derivation_trial_attempt
    ADD CONSTRAINT derivation_trial_attempt_trial_id_fkey FOREIGN KEY (trial_id) REFERENCES relaybox_internal.derivation_trial(trial_id);

CREATE TABLE relaybox_internal.derivation_trial_message (
    trial_id integer NOT NULL,
    seq bigint NOT NULL,
    message_id uuid NOT NULL,
    topic text NOT NULL,
    sender text NOT NULL,
    key text,
    headers jsonb NOT NULL,
    payload text,
    payload_bytes bytea,
    CONSTRAINT headers_are_an_object CHECK ((jsonb_typeof(headers) = 'object'::text)),
    CONSTRAINT headers_at_most_64_kib CHECK ((octet_length((headers)::text) <= 65536)),
    CONSTRAINT headers_nest_at_most_64_levels CHECK ((NOT jsonb_path_exists(headers, 'strict $.**{64}?(@.type() == "object" || @.type() == "array")'::jsonpath))),
    CONSTRAINT key_at_most_200_characters CHECK ((length(key) <= 200)),
    CONSTRAINT message_has_exactly_one_payload CHECK ((num_nonnulls(payload, payload_bytes) = 1)),
    CONSTRAINT numbers_in_headers_below_1e308 CHECK ((NOT jsonb_path_exists(headers, 'strict $.**?(@.abs() >= 100000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000)'::jsonpath))),
    CONSTRAINT payload_at_most_16_mib CHECK (((octet_length(payload) <= 16777216) AND (octet_length(payload_bytes) <= 16777216))),
    CONSTRAINT topic_is_a_plain_name CHECK ((topic ~ '^[a-z0-9_.-]{1,48}$'::text))
);

COMMENT ON TABLE relaybox_internal.derivation_trial_message IS 'What a trial would send, with the constraints of relaybox.outbox. Deleted when the trial ends.';

COMMENT ON COLUMN relaybox_internal.derivation_trial_message.seq IS 'In the order in which the messages would be in the outbox.';

ALTER TABLE relaybox_internal.derivation_trial_message ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME relaybox_internal.derivation_trial_message_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE ONLY relaybox_internal.derivation_trial_message
    ADD CONSTRAINT derivation_trial_message_pkey PRIMARY KEY (trial_id, seq);

ALTER TABLE ONLY relaybox_internal.derivation_trial_message
    ADD CONSTRAINT derivation_trial_message_trial_id_fkey FOREIGN KEY (trial_id) REFERENCES relaybox_internal.derivation_trial(trial_id);

CREATE TABLE relaybox_internal.detached_payload (
    log_id integer NOT NULL,
    log_position bigint NOT NULL,
    first bigint NOT NULL,
    reference jsonb NOT NULL
);

COMMENT ON TABLE relaybox_internal.detached_payload IS 'The references to large payloads of messages that are in files only.';

COMMENT ON COLUMN relaybox_internal.detached_payload.first IS 'Of the detached segment that has the message.';

COMMENT ON COLUMN relaybox_internal.detached_payload.reference IS 'The header relaybox-payload of the message.';

ALTER TABLE ONLY relaybox_internal.detached_payload
    ADD CONSTRAINT detached_payload_pkey PRIMARY KEY (log_id, log_position);

CREATE TABLE relaybox_internal.detached_segment (
    log_id integer NOT NULL,
    first bigint NOT NULL,
    last bigint NOT NULL,
    segment text NOT NULL,
    state text DEFAULT 'detaching'::text NOT NULL,
    attempt integer DEFAULT 1 NOT NULL,
    directory text NOT NULL,
    strays text[] DEFAULT '{}'::text[] NOT NULL,
    row_count bigint NOT NULL,
    hash_sum numeric NOT NULL,
    needed_by text[] NOT NULL,
    begun_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    begun_by text NOT NULL,
    moved_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    moved_by text NOT NULL,
    removed_at timestamp with time zone,
    files jsonb,
    payloads_listed boolean DEFAULT false NOT NULL,
    CONSTRAINT detached_segment_not_empty CHECK (((last > first) AND (row_count > 0))),
    CONSTRAINT detached_state_is_known CHECK ((state = ANY (ARRAY['detaching'::text, 'detached'::text, 'attached'::text, 'released'::text]))),
    CONSTRAINT needed_files_are_not_removed CHECK (((removed_at IS NULL) OR (state = ANY (ARRAY['attached'::text, 'released'::text]))))
);

COMMENT ON TABLE relaybox_internal.detached_segment IS 'Segments of logs that were moved into files, and the directory of these files.';

COMMENT ON COLUMN relaybox_internal.detached_segment.state IS 'detaching: the rows are here, files are being written. detached: the rows are only in the files. attached: the rows are here again. released: no consumer needs the files.';

COMMENT ON COLUMN relaybox_internal.detached_segment.attempt IS 'The newest process that detaches or attaches the segment. A higher number supersedes a lower one.';

COMMENT ON COLUMN relaybox_internal.detached_segment.strays IS 'Directories of attempts that failed, until they are removed.';

COMMENT ON COLUMN relaybox_internal.detached_segment.hash_sum IS 'Sum of the hashes of the rows. With row_count it verifies that the files have the same rows.';

COMMENT ON COLUMN relaybox_internal.detached_segment.moved_at IS 'When the segment came into its state.';

COMMENT ON COLUMN relaybox_internal.detached_segment.files IS 'Name, size in bytes, row count, first and last log position of each file, when they were verified. Null: detached by an earlier version.';

COMMENT ON COLUMN relaybox_internal.detached_segment.payloads_listed IS 'detached_payload has all references of its messages. False: detached by an earlier version.';

ALTER TABLE ONLY relaybox_internal.detached_segment
    ADD CONSTRAINT detached_segment_pkey PRIMARY KEY (log_id, first);

ALTER TABLE ONLY relaybox_internal.detached_segment
    ADD CONSTRAINT detached_segment_log_id_fkey FOREIGN KEY (log_id) REFERENCES relaybox_internal.hop_in(log_id);

CREATE TABLE relaybox_internal.dropped_segment (
    dropped_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    segment text NOT NULL,
    hop text,
    first bigint NOT NULL,
    last bigint NOT NULL,
    bytes bigint NOT NULL,
    dropped_by text NOT NULL,
    account jsonb
);

COMMENT ON TABLE relaybox_internal.dropped_segment IS 'Segments that retention dropped: of the outbox (hop is null; first and last are seqs) or of the log of a hop (positions).';

COMMENT ON COLUMN relaybox_internal.dropped_segment.account IS 'Of an outbox segment: the state of its messages for each hop and topic when it was dropped.';

ALTER TABLE ONLY relaybox_internal.dropped_segment
    ADD CONSTRAINT dropped_segment_pkey PRIMARY KEY (dropped_at, segment);

CREATE TABLE relaybox_internal.endpoint_failure (
    subscription_id integer NOT NULL,
    endpoint text NOT NULL,
    failing_since timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    failure_count bigint DEFAULT 1 NOT NULL,
    failed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    pause_seconds double precision NOT NULL,
    reason text NOT NULL,
    failed_for text DEFAULT SESSION_USER NOT NULL,
    CONSTRAINT endpoint_failure_has_failed CHECK (((failure_count >= 1) AND (pause_seconds >= (0)::double precision)))
);

COMMENT ON TABLE relaybox_internal.endpoint_failure IS 'Endpoints that do not take the messages of a subscription: of a webhook, or of Kafka. The messages wait, and no attempt is counted against them. The row goes when a message is delivered.';

COMMENT ON COLUMN relaybox_internal.endpoint_failure.endpoint IS 'What the worker calls it: a URL without its query, or brokers and topic.';

COMMENT ON COLUMN relaybox_internal.endpoint_failure.failing_since IS 'The first failure since a message was delivered.';

COMMENT ON COLUMN relaybox_internal.endpoint_failure.failure_count IS 'Failures since then, one after the other.';

COMMENT ON COLUMN relaybox_internal.endpoint_failure.failed_at IS 'The newest failure.';

COMMENT ON COLUMN relaybox_internal.endpoint_failure.pause_seconds IS 'From the newest failure to the next attempt.';

COMMENT ON COLUMN relaybox_internal.endpoint_failure.reason IS 'Of the newest failure.';

COMMENT ON COLUMN relaybox_internal.endpoint_failure.failed_for IS 'The login of its worker.';

ALTER TABLE ONLY relaybox_internal.endpoint_failure
    ADD CONSTRAINT endpoint_failure_pkey PRIMARY KEY (subscription_id);

ALTER TABLE ONLY relaybox_internal.endpoint_failure
    ADD CONSTRAINT endpoint_failure_subscription_id_fkey FOREIGN KEY (subscription_id) REFERENCES relaybox_internal.subscription(subscription_id);

CREATE TABLE relaybox_internal.failed_attempt (
    subscription_id integer NOT NULL,
    lane integer NOT NULL,
    stream_position bigint NOT NULL,
    attempts integer NOT NULL,
    first_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    last_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    last_by text NOT NULL,
    reason text NOT NULL
);

COMMENT ON TABLE relaybox_internal.failed_attempt IS 'Messages that were refused and will be fetched again.';

COMMENT ON COLUMN relaybox_internal.failed_attempt.reason IS 'The reason that the last nack gave. It becomes the detail of the dead letter.';

ALTER TABLE ONLY relaybox_internal.failed_attempt
    ADD CONSTRAINT failed_attempt_pkey PRIMARY KEY (subscription_id, lane, stream_position);

ALTER TABLE ONLY relaybox_internal.failed_attempt
    ADD CONSTRAINT failed_attempt_subscription_id_fkey FOREIGN KEY (subscription_id) REFERENCES relaybox_internal.subscription(subscription_id);

CREATE TABLE relaybox_internal.frame_partition (
    sender text NOT NULL,
    write_id text NOT NULL,
    partition integer NOT NULL,
    content text NOT NULL,
    message_count bigint NOT NULL,
    run uuid NOT NULL,
    sent_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    sent_by text DEFAULT SESSION_USER NOT NULL,
    CONSTRAINT frame_partition_not_negative CHECK (((partition >= '-1'::integer) AND (message_count >= 0)))
);

COMMENT ON TABLE relaybox_internal.frame_partition IS 'What writes of DataFrames have sent, partition by partition, in their order. Kept for as long as the store exists, since no message is kept that long.';

COMMENT ON COLUMN relaybox_internal.frame_partition.write_id IS 'Names the write: the option write_id, or the query and micro-batch of a streaming query.';

COMMENT ON COLUMN relaybox_internal.frame_partition.partition IS 'From 0. -1: the write is complete, and message_count is its number of partitions.';

COMMENT ON COLUMN relaybox_internal.frame_partition.content IS 'A digest of the messages: other messages of the same partition are refused.';

COMMENT ON COLUMN relaybox_internal.frame_partition.run IS 'The run of the write that has sent the partition, or found it sent with the same messages.';

ALTER TABLE ONLY relaybox_internal.frame_partition
    ADD CONSTRAINT frame_partition_pkey PRIMARY KEY (sender, write_id, partition);

CREATE TABLE relaybox_internal.generation (
    hop text NOT NULL,
    generation integer NOT NULL,
    begun_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    begun_by text NOT NULL,
    reason text NOT NULL,
    adopted_from bigint NOT NULL,
    adopted_through bigint NOT NULL,
    anchor_seq bigint NOT NULL,
    undelivered_count bigint NOT NULL,
    ghost_count bigint NOT NULL,
    adopted_seqs int8multirange DEFAULT '{}'::int8multirange NOT NULL
);

COMMENT ON TABLE relaybox_internal.generation IS 'Each time a hop continued after lost history: who did it, why, and what was found then.';

COMMENT ON COLUMN relaybox_internal.generation.adopted_seqs IS 'Rows of the outbox that the destination had: the ledger that was lost had delivered them.';

ALTER TABLE ONLY relaybox_internal.generation
    ADD CONSTRAINT generation_pkey PRIMARY KEY (hop, generation);

ALTER TABLE ONLY relaybox_internal.generation
    ADD CONSTRAINT generation_of_a_hop FOREIGN KEY (hop) REFERENCES relaybox_internal.hop_out(hop);

CREATE TABLE relaybox_internal.ghost (
    hop text NOT NULL,
    log_position bigint NOT NULL,
    generation integer NOT NULL,
    message_id uuid NOT NULL,
    sender text NOT NULL,
    topic text NOT NULL,
    sent_at timestamp with time zone NOT NULL
);

COMMENT ON TABLE relaybox_internal.ghost IS 'Messages that a destination has and this store lost.';

ALTER TABLE ONLY relaybox_internal.ghost
    ADD CONSTRAINT ghost_pkey PRIMARY KEY (hop, log_position);

ALTER TABLE ONLY relaybox_internal.ghost
    ADD CONSTRAINT ghost_of_a_generation FOREIGN KEY (hop, generation) REFERENCES relaybox_internal.generation(hop, generation);

CREATE TABLE relaybox_internal.held (
    log_id integer NOT NULL,
    log_position bigint NOT NULL,
    stream_id integer NOT NULL,
    sender_id integer NOT NULL,
    index bigint NOT NULL,
    arrival_seq bigint NOT NULL,
    held_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

COMMENT ON TABLE relaybox_internal.held IS 'Messages that wait for an earlier message of their sender, or for a message that their clock names.';

ALTER TABLE ONLY relaybox_internal.held
    ADD CONSTRAINT held_pkey PRIMARY KEY (log_id, log_position);

CREATE INDEX held_sender ON relaybox_internal.held USING btree (sender_id, index);

ALTER TABLE ONLY relaybox_internal.held
    ADD CONSTRAINT held_log_id_fkey FOREIGN KEY (log_id) REFERENCES relaybox_internal.hop_in(log_id);

ALTER TABLE ONLY relaybox_internal.held
    ADD CONSTRAINT held_sender_id_fkey FOREIGN KEY (sender_id) REFERENCES relaybox_internal.sender_state(sender_id);

ALTER TABLE ONLY relaybox_internal.held
    ADD CONSTRAINT held_stream_id_fkey FOREIGN KEY (stream_id) REFERENCES relaybox_internal.stream(stream_id);

CREATE TABLE relaybox_internal.hop_check (
    log_id integer NOT NULL,
    topic text NOT NULL,
    rule text NOT NULL,
    CONSTRAINT hop_check_is_known CHECK ((rule = ANY (ARRAY['warn'::text, 'set_aside'::text])))
);

COMMENT ON TABLE relaybox_internal.hop_check IS 'Topics whose messages are checked by their schemas when they arrive in a log. Init writes it.';

ALTER TABLE ONLY relaybox_internal.hop_check
    ADD CONSTRAINT hop_check_pkey PRIMARY KEY (log_id, topic);

ALTER TABLE ONLY relaybox_internal.hop_check
    ADD CONSTRAINT hop_check_of_a_hop FOREIGN KEY (log_id) REFERENCES relaybox_internal.hop_in(log_id);

CREATE TABLE relaybox_internal.hop_in (
    log_id integer NOT NULL,
    hop text NOT NULL,
    source text NOT NULL,
    published_batch bigint DEFAULT 0 NOT NULL,
    published_position bigint DEFAULT 0 NOT NULL,
    registered_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    generation integer DEFAULT 1 NOT NULL,
    replay_window_seconds bigint,
    stopped_consumer text DEFAULT 'alarm'::text NOT NULL,
    first_kept_position bigint DEFAULT 1 NOT NULL,
    compacted_batch bigint DEFAULT 0 NOT NULL,
    compacted_position bigint DEFAULT 0 NOT NULL,
    detach_after_seconds bigint,
    detach_to text,
    compacted_plan_id uuid,
    source_id uuid,
    CONSTRAINT detach_says_when_and_where CHECK (((stopped_consumer <> 'detach'::text) OR ((detach_after_seconds IS NOT NULL) AND (detach_to IS NOT NULL)))),
    CONSTRAINT first_kept_position_positive CHECK ((first_kept_position >= 1)),
    CONSTRAINT published_never_negative CHECK (((published_batch >= 0) AND (published_position >= 0))),
    CONSTRAINT replay_window_never_negative CHECK ((replay_window_seconds >= 0)),
    CONSTRAINT stopped_consumer_is_known CHECK ((stopped_consumer = ANY (ARRAY['keep'::text, 'alarm'::text, 'detach'::text])))
);

COMMENT ON TABLE relaybox_internal.hop_in IS 'The hops that arrive in this store: the last published position of each log, and how long messages are kept.';

COMMENT ON COLUMN relaybox_internal.hop_in.replay_window_seconds IS 'How long a message is kept after its delivery. Null: forever.';

COMMENT ON COLUMN relaybox_internal.hop_in.first_kept_position IS 'Retention dropped the segments of the log below this position.';

COMMENT ON COLUMN relaybox_internal.hop_in.compacted_batch IS 'Arrivals, receipts and decisions up to this batch were removed. None of their messages is kept.';

COMMENT ON COLUMN relaybox_internal.hop_in.detach_after_seconds IS 'How long a consumer must have been stopped before segments that only it needs are detached.';

COMMENT ON COLUMN relaybox_internal.hop_in.detach_to IS 'Directory or URI of detached segments. Spark writes and reads it.';

COMMENT ON COLUMN relaybox_internal.hop_in.compacted_plan_id IS 'Plan of compacted_batch. Two stores had the same batch only if its plan was the same.';

COMMENT ON COLUMN relaybox_internal.hop_in.source_id IS 'store_id of the store that the hop comes from. Null: no transfer has recorded it yet.';

ALTER TABLE relaybox_internal.hop_in ALTER COLUMN log_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME relaybox_internal.hop_in_log_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE ONLY relaybox_internal.hop_in
    ADD CONSTRAINT hop_arrives_once UNIQUE (hop);

ALTER TABLE ONLY relaybox_internal.hop_in
    ADD CONSTRAINT hop_in_pkey PRIMARY KEY (log_id);

CREATE TABLE relaybox_internal.hop_out (
    hop text NOT NULL,
    destination text NOT NULL,
    reads_log integer,
    topics text[],
    policy text NOT NULL,
    batch bigint DEFAULT 0 NOT NULL,
    log_position bigint DEFAULT 0 NOT NULL,
    lower pg_snapshot,
    attempt bigint DEFAULT 0 NOT NULL,
    system_identifier bigint NOT NULL,
    timeline integer NOT NULL,
    registered_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    generation integer DEFAULT 1 NOT NULL,
    anchor_seq bigint DEFAULT 0 NOT NULL,
    resend_through bigint DEFAULT 0 NOT NULL,
    replay_window_seconds bigint,
    stopped_consumer text DEFAULT 'alarm'::text NOT NULL,
    compacted_batch bigint DEFAULT 0 NOT NULL,
    compacted_position bigint DEFAULT 0 NOT NULL,
    processed_by text[],
    retired_at timestamp with time zone,
    retired_by text,
    retired_reason text,
    resend_after bigint DEFAULT 0 NOT NULL,
    read_ahead int8multirange DEFAULT '{}'::int8multirange NOT NULL,
    compacted_read bigint DEFAULT 0 NOT NULL,
    compacted_plan_id uuid,
    numbering integer DEFAULT 1 NOT NULL,
    subscribed_topics text[] DEFAULT '{}'::text[] NOT NULL,
    destination_id uuid,
    in_file_at timestamp with time zone,
    in_file_by text,
    removed_at timestamp with time zone,
    removed_by text,
    removed_attempt bigint,
    CONSTRAINT only_a_log_is_read_ahead CHECK (((reads_log IS NOT NULL) OR (read_ahead = '{}'::int8multirange))),
    CONSTRAINT outbox_hop_names_its_topics CHECK (((reads_log IS NULL) = ((cardinality(topics) > 0) AND (topics IS NOT NULL)))),
    CONSTRAINT planned_never_negative CHECK (((batch >= 0) AND (log_position >= 0))),
    CONSTRAINT policy_is_known CHECK ((policy = ANY (ARRAY['received'::text, 'cascade'::text, 'processed'::text]))),
    CONSTRAINT processed_by_somebody CHECK (((processed_by IS NULL) OR ((policy = 'processed'::text) AND (cardinality(processed_by) > 0)))),
    CONSTRAINT reads_outbox_or_log CHECK (((reads_log IS NULL) = (lower IS NOT NULL))),
    CONSTRAINT removed_by_somebody CHECK ((((removed_at IS NULL) = (removed_by IS NULL)) AND ((removed_at IS NULL) = (removed_attempt IS NULL)))),
    CONSTRAINT replay_window_never_negative CHECK ((replay_window_seconds >= 0)),
    CONSTRAINT retired_by_somebody CHECK ((((retired_at IS NULL) = (retired_by IS NULL)) AND ((retired_at IS NULL) = (retired_reason IS NULL)))),
    CONSTRAINT stopped_consumer_is_known CHECK ((stopped_consumer = ANY (ARRAY['keep'::text, 'alarm'::text])))
);

COMMENT ON TABLE relaybox_internal.hop_out IS 'The hops that leave this store: what each one reads, its newest plan, and how it confirms.';

COMMENT ON COLUMN relaybox_internal.hop_out.lower IS 'The snapshot from which the next pair starts. All rows above anchor_seq that it sees are in a batch or in a piece of the backlog.';

COMMENT ON COLUMN relaybox_internal.hop_out.attempt IS 'The newest driver of this hop. A higher number supersedes a lower one.';

COMMENT ON COLUMN relaybox_internal.hop_out.anchor_seq IS 'Pairs of this generation read rows above this seq. No transaction that wrote rows up to it was open.';

COMMENT ON COLUMN relaybox_internal.hop_out.resend_through IS 'An operator stated that the destination lost batches up to this one. They may be sent again.';

COMMENT ON COLUMN relaybox_internal.hop_out.replay_window_seconds IS 'Of a hop that reads the outbox: how long the outbox keeps a message that was sent. Null: forever.';

COMMENT ON COLUMN relaybox_internal.hop_out.compacted_batch IS 'Plans and confirmations up to this batch were removed. None of their messages is kept.';

COMMENT ON COLUMN relaybox_internal.hop_out.processed_by IS 'Subscriptions at the destination, which is the last store of a route with policy processed. Null: the hop asks none.';

COMMENT ON COLUMN relaybox_internal.hop_out.resend_after IS 'While resend_through is set: the last batch that the destination still had.';

COMMENT ON COLUMN relaybox_internal.hop_out.read_ahead IS 'Of a hop that reads a log: positions beyond the last one read that the destination already has. Batches leave them out.';

COMMENT ON COLUMN relaybox_internal.hop_out.compacted_read IS 'Of a hop that reads a log: the position up to which the compacted batches had read.';

COMMENT ON COLUMN relaybox_internal.hop_out.compacted_plan_id IS 'Plan of compacted_batch. Two stores had the same batch only if its plan was the same.';

COMMENT ON COLUMN relaybox_internal.hop_out.numbering IS 'The numbering of the transactions in lower and in the pairs above anchor_seq. If the store has another one, reanchor the hop.';

COMMENT ON COLUMN relaybox_internal.hop_out.subscribed_topics IS 'The topics that consumers asked for and that relaybox.yaml does not name.';

COMMENT ON COLUMN relaybox_internal.hop_out.destination_id IS 'store_id of the store that the hop goes to. Null: no transfer has recorded it yet.';

COMMENT ON COLUMN relaybox_internal.hop_out.in_file_at IS 'Since which init relaybox.yaml has the hop, or had it until removed_at. Null: none has said so since the store has this column.';

COMMENT ON COLUMN relaybox_internal.hop_out.removed_at IS 'Since which init relaybox.yaml does not have the hop. Null: it has it.';

COMMENT ON COLUMN relaybox_internal.hop_out.removed_attempt IS 'The newest attempt when an init last found that relaybox.yaml does not have the hop. A later attempt shows a driver whose relaybox.yaml has it.';

ALTER TABLE ONLY relaybox_internal.hop_out
    ADD CONSTRAINT hop_out_pkey PRIMARY KEY (hop);

ALTER TABLE ONLY relaybox_internal.hop_out
    ADD CONSTRAINT reads_log_of_a_hop_that_arrives_here FOREIGN KEY (reads_log) REFERENCES relaybox_internal.hop_in(log_id);

CREATE TABLE relaybox_internal.index_range (
    sender_id integer NOT NULL,
    first_index bigint NOT NULL,
    last_index bigint NOT NULL,
    first_position bigint NOT NULL,
    last_position bigint NOT NULL
);

COMMENT ON TABLE relaybox_internal.index_range IS 'Where the log has the older indexes of a sender, about 100,000 positions in a row. A duplicate is compared with its original.';

ALTER TABLE ONLY relaybox_internal.index_range
    ADD CONSTRAINT index_range_pkey PRIMARY KEY (sender_id, last_index, first_position);

ALTER TABLE ONLY relaybox_internal.index_range
    ADD CONSTRAINT index_range_sender_id_fkey FOREIGN KEY (sender_id) REFERENCES relaybox_internal.sender_state(sender_id);

CREATE TABLE relaybox_internal.installed_object (
    identity text NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    digest text NOT NULL,
    installed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    definition text,
    made_on integer,
    CONSTRAINT kind_of_object_is_known CHECK ((kind = ANY (ARRAY['function'::text, 'view'::text])))
);

COMMENT ON TABLE relaybox_internal.installed_object IS 'The functions and views that init made. Init changes and drops no others: they belong to the user.';

COMMENT ON COLUMN relaybox_internal.installed_object.digest IS 'Digest of the file that made the object. Init does not apply a file again that has not changed.';

COMMENT ON COLUMN relaybox_internal.installed_object.definition IS 'Digest of the object as Postgres had it when init had made it. Null: made before this column was added.';

COMMENT ON COLUMN relaybox_internal.installed_object.made_on IS 'The major version of Postgres then: each writes a view in its own way.';

ALTER TABLE ONLY relaybox_internal.installed_object
    ADD CONSTRAINT installed_object_pkey PRIMARY KEY (identity);

CREATE VIEW relaybox_internal.known_topics AS
 WITH requested AS (
         SELECT DISTINCT topic_request.stream_id,
            topic_request.topic
           FROM relaybox_internal.topic_request
        )
 SELECT t.stream_id,
    t.topic,
        CASE
            WHEN ((t.carried_by = 'nobody'::text) AND (r.topic IS NOT NULL)) THEN 'subscription'::text
            ELSE t.carried_by
        END AS carried_by
   FROM (relaybox_internal.stream_topic t
     LEFT JOIN requested r ON (((r.stream_id = t.stream_id) AND (r.topic = t.topic))))
UNION ALL
 SELECT r.stream_id,
    r.topic,
    'subscription'::text AS carried_by
   FROM (requested r
     LEFT JOIN relaybox_internal.stream_topic t ON (((t.stream_id = r.stream_id) AND (t.topic = r.topic))))
  WHERE (t.topic IS NULL);

COMMENT ON VIEW relaybox_internal.known_topics IS 'The topics of each stream, with those that consumers of this store asked for.';

CREATE TABLE relaybox_internal.lane (
    subscription_id integer NOT NULL,
    lane integer NOT NULL
);

COMMENT ON TABLE relaybox_internal.lane IS 'The lanes of open subscriptions. A transaction that changes the cursor of a lane locks its row.';

ALTER TABLE ONLY relaybox_internal.lane
    ADD CONSTRAINT lane_pkey PRIMARY KEY (subscription_id, lane);

ALTER TABLE ONLY relaybox_internal.lane
    ADD CONSTRAINT lane_subscription_id_fkey FOREIGN KEY (subscription_id) REFERENCES relaybox_internal.subscription(subscription_id);

CREATE VIEW relaybox_internal.lane_cursors AS
 SELECT l.subscription_id,
    l.lane,
    newest.version,
    newest.done_stream_position,
    newest.fetched_stream_position,
    newest.redrive_stream_position,
    newest.fetch_count,
    newest.suspect_stream_position,
    newest.suspect_rows,
    newest.worker,
    newest.leased_until,
    newest.wait_until,
    newest.replay_stream_position,
    newest.rate_from,
    newest.moved_at,
    newest.token,
    newest.fetched_in,
    newest.first_fetched_at,
    newest.due_at
   FROM (relaybox_internal.lane l
     CROSS JOIN LATERAL ( SELECT c.subscription_id,
            c.lane,
            c.version,
            c.done_stream_position,
            c.fetched_stream_position,
            c.redrive_stream_position,
            c.fetch_count,
            c.suspect_stream_position,
            c.suspect_rows,
            c.worker,
            c.leased_until,
            c.wait_until,
            c.replay_stream_position,
            c.rate_from,
            c.moved_at,
            c.token,
            c.fetched_in,
            c.first_fetched_at,
            c.due_at
           FROM relaybox_internal.cursor c
          WHERE ((c.subscription_id = l.subscription_id) AND (c.lane = l.lane))
          ORDER BY c.version DESC
         LIMIT 1) newest);

COMMENT ON VIEW relaybox_internal.lane_cursors IS 'The newest cursor of each lane of each subscription.';

CREATE TABLE relaybox_internal.late_delivery (
    stream_id integer NOT NULL,
    delivered_at timestamp with time zone NOT NULL,
    after_stream_position bigint NOT NULL
);

COMMENT ON TABLE relaybox_internal.late_delivery IS 'Messages that were delivered without a new batch: those beyond after_stream_position were delivered at delivered_at or later, although the decision that counts them is older.';

ALTER TABLE ONLY relaybox_internal.late_delivery
    ADD CONSTRAINT late_delivery_pkey PRIMARY KEY (stream_id, delivered_at, after_stream_position);

ALTER TABLE ONLY relaybox_internal.late_delivery
    ADD CONSTRAINT late_delivery_stream_id_fkey FOREIGN KEY (stream_id) REFERENCES relaybox_internal.stream(stream_id) ON DELETE CASCADE;

CREATE TABLE relaybox_internal.log (
    log_id integer NOT NULL,
    epoch integer NOT NULL,
    log_position bigint NOT NULL,
    index bigint NOT NULL,
    message_id uuid NOT NULL,
    sent_at timestamp with time zone NOT NULL,
    topic text NOT NULL,
    sender text NOT NULL,
    key text,
    headers jsonb,
    payload text,
    payload_bytes bytea,
    clock jsonb
)
PARTITION BY LIST (log_id);

COMMENT ON TABLE relaybox_internal.log IS 'The messages that arrived, one partition for each hop, in segments. It also has rows that are not published yet.';

COMMENT ON COLUMN relaybox_internal.log.epoch IS '0: the sender gave no index, and the first log numbered the message by its position.';

ALTER TABLE ONLY relaybox_internal.log
    ADD CONSTRAINT log_pkey PRIMARY KEY (log_id, log_position);

CREATE TABLE relaybox_internal.nonconforming_message (
    log_id integer NOT NULL,
    log_position bigint NOT NULL,
    topic text NOT NULL,
    is_set_aside boolean NOT NULL,
    problem text NOT NULL,
    found_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

COMMENT ON TABLE relaybox_internal.nonconforming_message IS 'Messages that did not conform to the schema of their topic when they arrived at the first store of their route. Later stores get a copy of those that are set aside.';

COMMENT ON COLUMN relaybox_internal.nonconforming_message.is_set_aside IS 'No stream delivers it. False: it was noted only.';

ALTER TABLE ONLY relaybox_internal.nonconforming_message
    ADD CONSTRAINT nonconforming_message_pkey PRIMARY KEY (log_id, log_position);

ALTER TABLE ONLY relaybox_internal.nonconforming_message
    ADD CONSTRAINT nonconforming_message_of_a_hop FOREIGN KEY (log_id) REFERENCES relaybox_internal.hop_in(log_id);

CREATE TABLE relaybox_internal.numbering (
    only_row boolean DEFAULT true NOT NULL,
    numbering integer DEFAULT 1 NOT NULL,
    xid xid8 DEFAULT pg_current_xact_id() NOT NULL,
    CONSTRAINT numbering_has_one_row CHECK (only_row)
);

COMMENT ON TABLE relaybox_internal.numbering IS 'One row, which names the transaction that wrote it. After a dump and reload another transaction has written it.';

COMMENT ON COLUMN relaybox_internal.numbering.numbering IS 'Number of reloads that reanchor or init found, plus 1.';

ALTER TABLE ONLY relaybox_internal.numbering
    ADD CONSTRAINT numbering_pkey PRIMARY KEY (only_row);

CREATE TABLE relaybox_internal.outbox_overflow (
    seq bigint DEFAULT nextval('relaybox.outbox_seq'::regclass) CONSTRAINT outbox_seq_not_null NOT NULL,
    xid xid8 DEFAULT pg_current_xact_id() CONSTRAINT outbox_xid_not_null NOT NULL,
    message_id uuid DEFAULT relaybox.new_message_id() CONSTRAINT outbox_message_id_not_null NOT NULL,
    index bigint,
    sent_at timestamp with time zone DEFAULT clock_timestamp() CONSTRAINT outbox_sent_at_not_null NOT NULL,
    epoch integer DEFAULT 1 CONSTRAINT outbox_epoch_not_null NOT NULL,
    topic text CONSTRAINT outbox_topic_not_null NOT NULL,
    sender text CONSTRAINT outbox_sender_not_null NOT NULL,
    key text,
    headers jsonb,
    payload text,
    payload_bytes bytea,
    clock jsonb,
    CONSTRAINT message_is_accepted CHECK (relaybox_internal.accepts_message(topic, sender, key, index, epoch, headers, payload, payload_bytes, clock))
);

COMMENT ON TABLE relaybox_internal.outbox_overflow IS 'Rows of the outbox that no segment covers. The next ensure_outbox_segments() makes a segment of them.';

ALTER TABLE ONLY relaybox_internal.outbox_overflow
    ADD CONSTRAINT outbox_overflow_pkey PRIMARY KEY (seq);

CREATE INDEX outbox_overflow_message_id_idx ON relaybox_internal.outbox_overflow USING btree (message_id);

CREATE INDEX outbox_overflow_xid_idx ON relaybox_internal.outbox_overflow USING btree (xid);

CREATE TABLE relaybox_internal.payload_collection (
    place uuid NOT NULL,
    name text NOT NULL,
    location text NOT NULL,
    collected_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    collected_by text NOT NULL,
    referenced_count bigint NOT NULL,
    referenced_bytes bigint NOT NULL,
    unreferenced_count bigint NOT NULL,
    unreferenced_bytes bigint NOT NULL,
    trash_bytes bigint NOT NULL
);

COMMENT ON TABLE relaybox_internal.payload_collection IS 'The newest collection of each place of large payloads. Locked while the references of all stores are read: retention drops no segment meanwhile.';

COMMENT ON COLUMN relaybox_internal.payload_collection.place IS 'The id of the place, as its mark has it.';

COMMENT ON COLUMN relaybox_internal.payload_collection.name IS 'As relaybox.yaml named it then.';

COMMENT ON COLUMN relaybox_internal.payload_collection.location IS 'The directory, or the URI of an object store.';

COMMENT ON COLUMN relaybox_internal.payload_collection.referenced_count IS 'Files to which a message of any store refers.';

COMMENT ON COLUMN relaybox_internal.payload_collection.unreferenced_count IS 'Files to which no message refers, and that were too young to be removed.';

COMMENT ON COLUMN relaybox_internal.payload_collection.trash_bytes IS 'Of removed files that relaybox payloads restore brings back.';

ALTER TABLE ONLY relaybox_internal.payload_collection
    ADD CONSTRAINT payload_collection_pkey PRIMARY KEY (place);

CREATE TABLE relaybox_internal.put (
    sender text NOT NULL,
    put_key text NOT NULL,
    content text NOT NULL,
    message_count integer NOT NULL,
    put_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    put_by text DEFAULT SESSION_USER NOT NULL,
    CONSTRAINT put_content_of_1_to_100_bytes CHECK (((octet_length(content) >= 1) AND (octet_length(content) <= 100))),
    CONSTRAINT put_key_of_1_to_1000_bytes CHECK (((octet_length(put_key) >= 1) AND (octet_length(put_key) <= 1000))),
    CONSTRAINT put_message_count_not_negative CHECK ((message_count >= 0)),
    CONSTRAINT put_sender_is_a_plain_name CHECK ((sender ~ '^[A-Za-z0-9_.:-]{1,48}$'::text))
);

COMMENT ON TABLE relaybox_internal.put IS 'What record_put() was told: the messages of this key are sent, and are not sent again. Kept for as long as the store exists, since no message is kept that long.';

COMMENT ON COLUMN relaybox_internal.put.sender IS 'Who sent. Each sender has its own keys.';

COMMENT ON COLUMN relaybox_internal.put.put_key IS 'Names the put, 1 to 1,000 bytes. A task of Airflow gives DAG/TASK/MAP_INDEX/RUN.';

COMMENT ON COLUMN relaybox_internal.put.content IS 'A digest of the messages: other messages under the same key are refused.';

COMMENT ON COLUMN relaybox_internal.put.message_count IS 'How many messages it sent.';

COMMENT ON COLUMN relaybox_internal.put.put_at IS 'When they were sent.';

COMMENT ON COLUMN relaybox_internal.put.put_by IS 'The login that sent them.';

ALTER TABLE ONLY relaybox_internal.put
    ADD CONSTRAINT put_pkey PRIMARY KEY (sender, put_key);

CREATE TABLE relaybox_internal.receipt (
    log_id integer NOT NULL,
    batch bigint NOT NULL,
    slice integer NOT NULL,
    plan_id uuid NOT NULL,
    row_count bigint NOT NULL,
    attempt bigint NOT NULL,
    copied_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

COMMENT ON TABLE relaybox_internal.receipt IS 'Which slices of a batch are copied, written by the transaction that copied them.';

ALTER TABLE ONLY relaybox_internal.receipt
    ADD CONSTRAINT receipt_pkey PRIMARY KEY (log_id, batch, slice);

ALTER TABLE ONLY relaybox_internal.receipt
    ADD CONSTRAINT receipt_of_a_hop FOREIGN KEY (log_id) REFERENCES relaybox_internal.hop_in(log_id);

CREATE TABLE relaybox_internal.replay_range (
    replay_range_id bigint NOT NULL,
    subscription_id integer NOT NULL,
    first_stream_position bigint NOT NULL,
    last_stream_position bigint NOT NULL,
    asked_by text[] NOT NULL,
    reason text NOT NULL,
    begun_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    done_at timestamp with time zone,
    CONSTRAINT replay_range_not_empty CHECK (((last_stream_position >= first_stream_position) AND (first_stream_position >= 1))),
    CONSTRAINT somebody_asked_for_it CHECK ((cardinality(asked_by) >= 1))
);

COMMENT ON TABLE relaybox_internal.replay_range IS 'Ranges that second cursors read, one after the other. To read them: relaybox.replay_ranges.';

COMMENT ON COLUMN relaybox_internal.replay_range.subscription_id IS 'The second cursor.';

COMMENT ON COLUMN relaybox_internal.replay_range.asked_by IS 'Who asked for the range, and who joined: logins, or runs of Airflow and how often each was cleared.';

COMMENT ON COLUMN relaybox_internal.replay_range.done_at IS 'Written when the next range of the cursor begins. The lanes tell how far the newest range is.';

ALTER TABLE relaybox_internal.replay_range ALTER COLUMN replay_range_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME relaybox_internal.replay_range_replay_range_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE ONLY relaybox_internal.replay_range
    ADD CONSTRAINT replay_range_pkey PRIMARY KEY (replay_range_id);

CREATE INDEX replay_range_of_a_cursor ON relaybox_internal.replay_range USING btree (subscription_id, replay_range_id);

ALTER TABLE ONLY relaybox_internal.replay_range
    ADD CONSTRAINT replay_range_subscription_id_fkey FOREIGN KEY (subscription_id) REFERENCES relaybox_internal.subscription(subscription_id);

CREATE TABLE relaybox_internal.sealed_segment (
    last_seq bigint NOT NULL,
    first_seq bigint NOT NULL,
    segment oid NOT NULL,
    sealed_xid xid8 DEFAULT pg_current_xact_id() NOT NULL,
    sealed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    first_message_id uuid,
    last_message_id uuid,
    CONSTRAINT sealed_segment_has_both_ids CHECK (((first_message_id IS NULL) = (last_message_id IS NULL))),
    CONSTRAINT sealed_segment_not_empty CHECK ((last_seq >= first_seq))
);

COMMENT ON TABLE relaybox_internal.sealed_segment IS 'Segments of the outbox that take no rows any more, from the oldest on.';

COMMENT ON COLUMN relaybox_internal.sealed_segment.segment IS 'Its table. A dump and reload gives it another number.';

COMMENT ON COLUMN relaybox_internal.sealed_segment.sealed_xid IS 'The sealing transaction: those of all rows in it were before. It equals the row''s xmin unless the store was dumped and reloaded; then the segment counts as not sealed.';

COMMENT ON COLUMN relaybox_internal.sealed_segment.first_message_id IS 'The lowest message_id in it; last_message_id is the highest. Null: it has no row, or was sealed before this was recorded.';

ALTER TABLE ONLY relaybox_internal.sealed_segment
    ADD CONSTRAINT sealed_segment_pkey PRIMARY KEY (last_seq);

CREATE TABLE relaybox_internal.seen (
    sender_id integer NOT NULL,
    chunk bigint NOT NULL,
    indexes int8multirange NOT NULL,
    fragments integer NOT NULL
);

COMMENT ON TABLE relaybox_internal.seen IS 'Indexes beyond the watermark of a sender that were accepted, one row for 4096 indexes.';

ALTER TABLE ONLY relaybox_internal.seen
    ADD CONSTRAINT seen_pkey PRIMARY KEY (sender_id, chunk);

ALTER TABLE ONLY relaybox_internal.seen
    ADD CONSTRAINT seen_sender_id_fkey FOREIGN KEY (sender_id) REFERENCES relaybox_internal.sender_state(sender_id);

CREATE TABLE relaybox_internal.sender (
    origin text NOT NULL,
    sender text NOT NULL,
    epoch integer NOT NULL,
    kind text NOT NULL,
    declared_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    declared_by text DEFAULT SESSION_USER NOT NULL,
    xid xid8 DEFAULT pg_current_xact_id() NOT NULL,
    CONSTRAINT epoch_positive CHECK ((epoch >= 1)),
    CONSTRAINT kind_is_known CHECK ((kind = ANY (ARRAY['gapless'::text, 'sparse'::text]))),
    CONSTRAINT sender_is_a_plain_name CHECK ((sender ~ '^[A-Za-z0-9_.:-]{1,48}$'::text))
);

COMMENT ON TABLE relaybox_internal.sender IS 'Senders that number their messages themselves, one row for each epoch. Copied to every store that their routes reach.';

ALTER TABLE ONLY relaybox_internal.sender
    ADD CONSTRAINT sender_pkey PRIMARY KEY (origin, sender, epoch);

CREATE INDEX sender_xid ON relaybox_internal.sender USING btree (xid);

CREATE TABLE relaybox_internal.sender_counter (
    sender text NOT NULL,
    epoch integer NOT NULL,
    last_index bigint DEFAULT 0 NOT NULL
);

COMMENT ON TABLE relaybox_internal.sender_counter IS 'The newest index that next_index() gave, for each declared sender of this store. next_index() locks the row until its transaction ends.';

ALTER TABLE ONLY relaybox_internal.sender_counter
    ADD CONSTRAINT sender_counter_pkey PRIMARY KEY (sender);

CREATE TABLE relaybox_internal.sender_state (
    sender_id integer NOT NULL,
    stream_id integer NOT NULL,
    sender text NOT NULL,
    epoch integer NOT NULL,
    origin text NOT NULL,
    kind text NOT NULL,
    watermark bigint DEFAULT 0 NOT NULL,
    seen_beyond bigint DEFAULT 0 NOT NULL,
    fragment_count bigint DEFAULT 0 NOT NULL,
    held_count bigint DEFAULT 0 NOT NULL,
    skipped int8multirange DEFAULT '{}'::int8multirange NOT NULL,
    begun_at bigint,
    stalled_after bigint,
    stalled_reason text,
    range_first_index bigint,
    range_last_index bigint,
    range_first_position bigint,
    range_last_position bigint,
    moved_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    stalled_watermark bigint,
    CONSTRAINT stalled_for_a_reason CHECK (((stalled_after IS NULL) = (stalled_reason IS NULL)))
);

COMMENT ON TABLE relaybox_internal.sender_state IS 'For each sender of a stream and each of its epochs: which of its indexes were delivered.';

COMMENT ON COLUMN relaybox_internal.sender_state.watermark IS 'Every index up to this one was delivered, set aside or skipped.';

COMMENT ON COLUMN relaybox_internal.sender_state.seen_beyond IS 'Number of ranges of accepted indexes beyond the watermark. Table seen has them. Equal to fragment_count.';

COMMENT ON COLUMN relaybox_internal.sender_state.skipped IS 'Indexes that the sender''s later messages do not wait for: an operator skipped them, or their messages were set aside before their turn.';

COMMENT ON COLUMN relaybox_internal.sender_state.begun_at IS 'Arrival number of its first accepted message. From there on the stream refuses lower epochs.';

COMMENT ON COLUMN relaybox_internal.sender_state.stalled_after IS 'Messages of this sender beyond this log position wait in the log. The stream has not decided on them and does not list them.';

COMMENT ON COLUMN relaybox_internal.sender_state.range_first_index IS 'With the three columns after it: the part of the log that has the newest indexes.';

COMMENT ON COLUMN relaybox_internal.sender_state.stalled_watermark IS 'The watermark when the sender stalled.';

ALTER TABLE relaybox_internal.sender_state ALTER COLUMN sender_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME relaybox_internal.sender_state_sender_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE ONLY relaybox_internal.sender_state
    ADD CONSTRAINT sender_state_of_an_epoch UNIQUE (stream_id, sender, epoch);

ALTER TABLE ONLY relaybox_internal.sender_state
    ADD CONSTRAINT sender_state_pkey PRIMARY KEY (sender_id);

CREATE INDEX sender_state_stalled ON relaybox_internal.sender_state USING btree (stream_id) WHERE (stalled_after IS NOT NULL);

ALTER TABLE ONLY relaybox_internal.sender_state
    ADD CONSTRAINT sender_state_stream_id_fkey FOREIGN KEY (stream_id) REFERENCES relaybox_internal.stream(stream_id);

CREATE VIEW relaybox_internal.sent_rows AS
 SELECT seq,
    xid,
    message_id,
    index,
    sent_at,
    epoch,
    topic,
    sender,
    key,
    headers,
    payload,
    payload_bytes,
    clock,
    xmin
   FROM relaybox.outbox o;

COMMENT ON VIEW relaybox_internal.sent_rows IS 'The rows of relaybox.outbox, all of them, also where senders are bound to roles. Relaybox reads the outbox here.';

CREATE TABLE relaybox_internal.skip (
    skip_id bigint NOT NULL,
    stream_id integer NOT NULL,
    sender text NOT NULL,
    epoch integer NOT NULL,
    first_index bigint NOT NULL,
    last_index bigint NOT NULL,
    reason text NOT NULL,
    skipped_by text NOT NULL,
    skipped_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT skip_not_empty CHECK (((last_index >= first_index) AND (btrim(reason) <> ''::text)))
);

COMMENT ON TABLE relaybox_internal.skip IS 'Gaps of senders that an operator skipped: who did it, and why.';

ALTER TABLE relaybox_internal.skip ALTER COLUMN skip_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME relaybox_internal.skip_skip_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE ONLY relaybox_internal.skip
    ADD CONSTRAINT skip_pkey PRIMARY KEY (skip_id);

ALTER TABLE ONLY relaybox_internal.skip
    ADD CONSTRAINT skip_stream_id_fkey FOREIGN KEY (stream_id) REFERENCES relaybox_internal.stream(stream_id);

CREATE TABLE relaybox_internal.store (
    only_row boolean DEFAULT true NOT NULL,
    store text NOT NULL,
    segment_rows bigint NOT NULL,
    grants_digest text,
    initialised_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    first_kept_seq bigint DEFAULT 1 NOT NULL,
    anchor_seq bigint DEFAULT 0 NOT NULL,
    system_identifier bigint,
    timeline integer,
    subscriptions_per_role integer DEFAULT 100 NOT NULL,
    lanes_per_role integer DEFAULT 1000 NOT NULL,
    topics_per_role integer DEFAULT 100 NOT NULL,
    durability text DEFAULT 'server'::text NOT NULL,
    durability_reason text,
    durability_said_by text,
    durability_said_at timestamp with time zone,
    store_id uuid DEFAULT gen_random_uuid() NOT NULL,
    bind_subscriptions boolean DEFAULT false NOT NULL,
    bind_topics boolean DEFAULT false NOT NULL,
    require_approval boolean DEFAULT false NOT NULL,
    functions_version text,
    functions_order integer[],
    CONSTRAINT durability_is_known CHECK ((durability = ANY (ARRAY['server'::text, 'provider'::text]))),
    CONSTRAINT first_kept_seq_positive CHECK ((first_kept_seq >= 1)),
    CONSTRAINT provider_has_a_reason CHECK (((durability = 'server'::text) OR (durability_reason IS NOT NULL))),
    CONSTRAINT quotas_not_negative CHECK (((subscriptions_per_role >= 0) AND (lanes_per_role >= 0))),
    CONSTRAINT segment_rows_positive CHECK ((segment_rows > 0)),
    CONSTRAINT store_has_one_row CHECK (only_row),
    CONSTRAINT topics_per_role_not_negative CHECK ((topics_per_role >= 0))
);

COMMENT ON TABLE relaybox_internal.store IS 'One row: the name of this store, its quotas, and the cluster whose transaction numbers its outbox has.';

COMMENT ON COLUMN relaybox_internal.store.segment_rows IS 'Rows of a segment of the outbox or of a log.';

COMMENT ON COLUMN relaybox_internal.store.grants_digest IS 'Digest of the grants and comments that the last init applied.';

COMMENT ON COLUMN relaybox_internal.store.first_kept_seq IS 'Retention dropped the segments of the outbox below this seq.';

COMMENT ON COLUMN relaybox_internal.store.anchor_seq IS 'Rows up to this seq may have transaction numbers of another cluster. No transaction that wrote them is open.';

COMMENT ON COLUMN relaybox_internal.store.system_identifier IS 'The cluster whose transaction numbers the rows above anchor_seq have.';

COMMENT ON COLUMN relaybox_internal.store.durability IS 'server: fsync and full_page_writes are on. provider: the provider of this database makes commits durable by other means, as durability_reason says.';

COMMENT ON COLUMN relaybox_internal.store.durability_reason IS 'Why provider was chosen, from relaybox.yaml; null for server.';

COMMENT ON COLUMN relaybox_internal.store.durability_said_by IS 'The login whose init changed it last; null: it was never changed.';

COMMENT ON COLUMN relaybox_internal.store.durability_said_at IS 'When.';

COMMENT ON COLUMN relaybox_internal.store.store_id IS 'Made by the first init. A dump, a backup and a replica of this store have it too; another database never has.';

COMMENT ON COLUMN relaybox_internal.store.bind_subscriptions IS 'True: a role uses only subscriptions that it is bound to, as relaybox.yaml says.';

COMMENT ON COLUMN relaybox_internal.store.bind_topics IS 'True: a role reads only messages of topics that it was granted, as relaybox.yaml says.';

COMMENT ON COLUMN relaybox_internal.store.require_approval IS 'True: only drivers and the owner redrive, replay, or subscribe again at an earlier stream position, as relaybox.yaml says.';

COMMENT ON COLUMN relaybox_internal.store.functions_version IS 'The newest version of Relaybox whose init made functions and views here; of init --older: that version.';

COMMENT ON COLUMN relaybox_internal.store.functions_order IS 'The same version as numbers that sort as versions do: major, minor, patch, stage, number of the stage.';

ALTER TABLE ONLY relaybox_internal.store
    ADD CONSTRAINT store_pkey PRIMARY KEY (only_row);

CREATE TABLE relaybox_internal.stream (
    stream_id integer NOT NULL,
    stream text NOT NULL,
    delivery_order text NOT NULL,
    message_id_window bigint DEFAULT 0 NOT NULL,
    holdback_rows bigint DEFAULT 10000 NOT NULL,
    fragments bigint DEFAULT 1000000 NOT NULL,
    arrival_seq bigint DEFAULT 0 NOT NULL,
    last_stream_position bigint DEFAULT 0 NOT NULL,
    recheck boolean DEFAULT false NOT NULL,
    registered_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    first_kept_stream_position bigint DEFAULT 1 NOT NULL,
    topics_by_subscription boolean DEFAULT false NOT NULL,
    dropped_stream_position bigint DEFAULT 0 NOT NULL,
    rules_pending boolean DEFAULT false NOT NULL,
    has_expiry boolean DEFAULT false NOT NULL,
    has_delay boolean DEFAULT false NOT NULL,
    CONSTRAINT delivery_order_is_known CHECK ((delivery_order = ANY (ARRAY['none'::text, 'fifo'::text, 'causal'::text, 'total'::text]))),
    CONSTRAINT dropped_stream_position_is_not_kept CHECK ((dropped_stream_position < first_kept_stream_position)),
    CONSTRAINT first_kept_stream_position_positive CHECK ((first_kept_stream_position >= 1)),
    CONSTRAINT stream_limits_positive CHECK (((message_id_window >= 0) AND (holdback_rows >= 1) AND (fragments >= 1)))
);

COMMENT ON TABLE relaybox_internal.stream IS 'What this store delivers of a route: its order, its limits, and its last stream position.';

COMMENT ON COLUMN relaybox_internal.stream.arrival_seq IS 'Number of log rows that the stream has decided on. The newest of them has this arrival number.';

COMMENT ON COLUMN relaybox_internal.stream.last_stream_position IS 'Stream positions 1 to this one have messages, and never change.';

COMMENT ON COLUMN relaybox_internal.stream.recheck IS 'An operator skipped a gap: held messages may be deliverable although no batch arrived.';

COMMENT ON COLUMN relaybox_internal.stream.first_kept_stream_position IS 'Consumers can read from this stream position on. Retention raises it before it drops messages.';

COMMENT ON COLUMN relaybox_internal.stream.topics_by_subscription IS 'Subscribing to a topic that no stream of the store carries adds it to this stream.';

COMMENT ON COLUMN relaybox_internal.stream.dropped_stream_position IS 'Stream positions up to this one were dropped. Those after it and below first_kept_stream_position are detached.';

COMMENT ON COLUMN relaybox_internal.stream.rules_pending IS 'An init that changes the rules of the stream in several stores has begun and not ended. Until then the stream decides nothing.';

COMMENT ON COLUMN relaybox_internal.stream.has_expiry IS 'A message with the header relaybox-expires-at was delivered: fetch looks for expired ones.';

COMMENT ON COLUMN relaybox_internal.stream.has_delay IS 'A message with the header relaybox-deliver-after was delivered: fetch looks for those that are not due.';

ALTER TABLE relaybox_internal.stream ALTER COLUMN stream_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME relaybox_internal.stream_stream_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE ONLY relaybox_internal.stream
    ADD CONSTRAINT stream_is_known_once UNIQUE (stream);

ALTER TABLE ONLY relaybox_internal.stream
    ADD CONSTRAINT stream_pkey PRIMARY KEY (stream_id);

CREATE TABLE relaybox_internal.stream_log (
    log_id integer NOT NULL,
    stream_id integer NOT NULL,
    origin text NOT NULL,
    decided_batch bigint DEFAULT 0 NOT NULL,
    decided_position bigint DEFAULT 0 NOT NULL,
    senders_seen pg_snapshot,
    compacted_duplicates bigint DEFAULT 0 NOT NULL,
    compacted_decided_at timestamp with time zone,
    compacted_stream_position bigint
);

COMMENT ON TABLE relaybox_internal.stream_log IS 'The logs that a stream reads, and the last decided position of each.';

COMMENT ON COLUMN relaybox_internal.stream_log.senders_seen IS 'The declarations of senders that this snapshot of the source sees are copied.';

COMMENT ON COLUMN relaybox_internal.stream_log.compacted_duplicates IS 'Number of duplicates in the decisions that were removed.';

COMMENT ON COLUMN relaybox_internal.stream_log.compacted_decided_at IS 'Time of the newest decision that was removed.';

COMMENT ON COLUMN relaybox_internal.stream_log.compacted_stream_position IS 'Last stream position of the decisions that were removed.';

ALTER TABLE ONLY relaybox_internal.stream_log
    ADD CONSTRAINT stream_log_pkey PRIMARY KEY (log_id);

CREATE INDEX stream_log_stream ON relaybox_internal.stream_log USING btree (stream_id);

ALTER TABLE ONLY relaybox_internal.stream_log
    ADD CONSTRAINT stream_log_log_id_fkey FOREIGN KEY (log_id) REFERENCES relaybox_internal.hop_in(log_id);

ALTER TABLE ONLY relaybox_internal.stream_log
    ADD CONSTRAINT stream_log_stream_id_fkey FOREIGN KEY (stream_id) REFERENCES relaybox_internal.stream(stream_id);

CREATE TABLE relaybox_internal.stream_role (
    stream text NOT NULL,
    role_name name NOT NULL,
    bound_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    bound_by text DEFAULT SESSION_USER NOT NULL,
    CONSTRAINT bound_stream_is_a_plain_name CHECK ((stream ~ '^[a-z][a-z0-9_-]{0,29}$'::text))
);

COMMENT ON TABLE relaybox_internal.stream_role IS 'Which database roles are operators of which stream, in a store with bind_subscriptions: true. `relaybox operators bind` writes it.';

COMMENT ON COLUMN relaybox_internal.stream_role.stream IS 'Name of the stream, which need not exist yet. Of a route it is the name of the route, or `stream`.';

COMMENT ON COLUMN relaybox_internal.stream_role.role_name IS 'The role, itself or by membership. It has an effect for members of relaybox_operator.';

COMMENT ON COLUMN relaybox_internal.stream_role.bound_at IS 'When it was bound.';

COMMENT ON COLUMN relaybox_internal.stream_role.bound_by IS 'The login that bound it.';

ALTER TABLE ONLY relaybox_internal.stream_role
    ADD CONSTRAINT stream_role_pkey PRIMARY KEY (stream, role_name);

CREATE TABLE relaybox_internal.stream_topic (
    stream_id integer NOT NULL,
    topic text NOT NULL,
    carried_by text DEFAULT 'file'::text NOT NULL,
    left_after_subscription integer,
    CONSTRAINT carried_by_is_known CHECK ((carried_by = ANY (ARRAY['file'::text, 'subscription'::text, 'nobody'::text])))
);

COMMENT ON TABLE relaybox_internal.stream_topic IS 'The topics that a stream carries, or carried.';

COMMENT ON COLUMN relaybox_internal.stream_topic.carried_by IS 'file: a route names the topic. subscription: the next store asked for it (topics_by_subscription). nobody: a route named it earlier. Topics that consumers of this store asked for: relaybox_internal.topic_request.';

COMMENT ON COLUMN relaybox_internal.stream_topic.left_after_subscription IS 'The newest subscription of this store when init took the topic from the stream for the last time: those up to it lost the topic. Null: it did not, or before this column was added.';

ALTER TABLE ONLY relaybox_internal.stream_topic
    ADD CONSTRAINT stream_topic_pkey PRIMARY KEY (stream_id, topic);

ALTER TABLE ONLY relaybox_internal.stream_topic
    ADD CONSTRAINT stream_topic_stream_id_fkey FOREIGN KEY (stream_id) REFERENCES relaybox_internal.stream(stream_id) ON DELETE CASCADE;

CREATE TABLE relaybox_internal.subscription (
    subscription_id integer NOT NULL,
    subscription text NOT NULL,
    stream_id integer NOT NULL,
    topic text,
    lanes integer DEFAULT 1 NOT NULL,
    lane_by text DEFAULT 'sender'::text NOT NULL,
    lane_hash bigint DEFAULT hashtextextended('relaybox'::text, (0)::bigint) NOT NULL,
    first_stream_position bigint NOT NULL,
    through_stream_position bigint,
    replay_of integer,
    rows_per_second integer,
    nack_limit integer DEFAULT 5 NOT NULL,
    crash_limit integer DEFAULT 5 NOT NULL,
    hold_sender boolean DEFAULT false NOT NULL,
    retry_seconds integer DEFAULT 0 NOT NULL,
    lease_seconds integer DEFAULT 60 NOT NULL,
    subscribed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    subscribed_by text DEFAULT SESSION_USER NOT NULL,
    ended_at timestamp with time zone,
    done_at_end bigint,
    query uuid,
    delayed text DEFAULT 'hold'::text NOT NULL,
    CONSTRAINT a_replay_ends CHECK (((replay_of IS NULL) = (through_stream_position IS NULL))),
    CONSTRAINT delayed_is_known CHECK ((delayed = ANY (ARRAY['hold'::text, 'pass'::text, 'ignore'::text]))),
    CONSTRAINT held_senders_are_not_passed CHECK (((delayed <> 'pass'::text) OR (NOT hold_sender))),
    CONSTRAINT lane_by_is_known CHECK ((lane_by = ANY (ARRAY['sender'::text, 'key'::text]))),
    CONSTRAINT lanes_1_to_64 CHECK (((lanes >= 1) AND (lanes <= 64))),
    CONSTRAINT subscription_is_a_plain_name CHECK ((subscription ~ '^[a-z0-9_.-]{1,60}$'::text)),
    CONSTRAINT subscription_limits_positive CHECK (((first_stream_position >= 1) AND (nack_limit >= 1) AND (crash_limit >= 1) AND (retry_seconds >= 0) AND (lease_seconds >= 1) AND (rows_per_second >= 1)))
);

COMMENT ON TABLE relaybox_internal.subscription IS 'Every subscription, also those that have ended. To read the open ones: relaybox.subscriptions.';

COMMENT ON COLUMN relaybox_internal.subscription.topic IS 'Null: every topic of the stream.';

COMMENT ON COLUMN relaybox_internal.subscription.lane_hash IS 'Hash of a fixed text. If this server computes another value, it would give senders other lanes.';

COMMENT ON COLUMN relaybox_internal.subscription.through_stream_position IS 'Last stream position of a second cursor. Null: not a second cursor.';

COMMENT ON COLUMN relaybox_internal.subscription.done_at_end IS 'Stream position through which every lane was done when the subscription ended. Null: it has not ended, or it ended before this column was added.';

COMMENT ON COLUMN relaybox_internal.subscription.query IS 'The streaming query of Spark that reads by it, as its checkpoint names it. Null: a consumer does.';

COMMENT ON COLUMN relaybox_internal.subscription.delayed IS 'Of a message that is not due. hold: its lane waits. pass: later ones go on, and it comes when it is due. ignore: it comes at once.';

ALTER TABLE relaybox_internal.subscription ALTER COLUMN subscription_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME relaybox_internal.subscription_subscription_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE ONLY relaybox_internal.subscription
    ADD CONSTRAINT subscription_pkey PRIMARY KEY (subscription_id);

CREATE UNIQUE INDEX subscribed_once ON relaybox_internal.subscription USING btree (subscription) WHERE (ended_at IS NULL);

CREATE INDEX subscription_of_name ON relaybox_internal.subscription USING btree (subscription);

CREATE INDEX subscription_of_role ON relaybox_internal.subscription USING btree (subscribed_by) INCLUDE (lanes) WHERE (ended_at IS NULL);

CREATE INDEX subscription_second_cursors ON relaybox_internal.subscription USING btree (replay_of) WHERE (replay_of IS NOT NULL);

ALTER TABLE ONLY relaybox_internal.subscription
    ADD CONSTRAINT subscription_replay_of_fkey FOREIGN KEY (replay_of) REFERENCES relaybox_internal.subscription(subscription_id);

ALTER TABLE ONLY relaybox_internal.subscription
    ADD CONSTRAINT subscription_stream_id_fkey FOREIGN KEY (stream_id) REFERENCES relaybox_internal.stream(stream_id);

CREATE TABLE relaybox_internal.subscription_role (
    subscription text NOT NULL,
    role_name name NOT NULL,
    bound_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    bound_by text DEFAULT SESSION_USER NOT NULL,
    CONSTRAINT bound_subscription_is_a_plain_name CHECK ((subscription ~ '^[a-z0-9_.-]{1,60}$'::text))
);

COMMENT ON TABLE relaybox_internal.subscription_role IS 'Which database roles may use which subscription, in a store with bind_subscriptions: true. `relaybox subscriptions bind` writes it.';

COMMENT ON COLUMN relaybox_internal.subscription_role.subscription IS 'Name of the subscription, which need not exist yet. Its second cursors belong to it.';

COMMENT ON COLUMN relaybox_internal.subscription_role.role_name IS 'The role that may use the subscription, itself or by membership.';

COMMENT ON COLUMN relaybox_internal.subscription_role.bound_at IS 'When it was bound. Of a subscription that ended before, the role sees nothing.';

COMMENT ON COLUMN relaybox_internal.subscription_role.bound_by IS 'The login that bound it.';

ALTER TABLE ONLY relaybox_internal.subscription_role
    ADD CONSTRAINT subscription_role_pkey PRIMARY KEY (subscription, role_name);

CREATE TABLE relaybox_internal.topic_request (
    stream_id integer NOT NULL,
    topic text NOT NULL,
    requested_by text NOT NULL,
    requested_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

COMMENT ON TABLE relaybox_internal.topic_request IS 'Topics that consumers subscribed to where no stream of the store carried them (topics_by_subscription).';

COMMENT ON COLUMN relaybox_internal.topic_request.requested_by IS 'The login. The topic counts for its quota.';

ALTER TABLE ONLY relaybox_internal.topic_request
    ADD CONSTRAINT topic_request_pkey PRIMARY KEY (stream_id, topic, requested_by);

CREATE INDEX topic_request_requested_by ON relaybox_internal.topic_request USING btree (requested_by);

ALTER TABLE ONLY relaybox_internal.topic_request
    ADD CONSTRAINT topic_request_stream_id_fkey FOREIGN KEY (stream_id) REFERENCES relaybox_internal.stream(stream_id) ON DELETE CASCADE;

CREATE TABLE relaybox_internal.topic_role (
    topic text NOT NULL,
    role_name name NOT NULL,
    granted_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    granted_by text DEFAULT SESSION_USER NOT NULL,
    CONSTRAINT granted_topic_is_a_plain_name CHECK (((topic = '*'::text) OR (topic ~ '^[a-z0-9_.-]{1,48}$'::text)))
);

COMMENT ON TABLE relaybox_internal.topic_role IS 'Which database roles may read messages of which topic, in a store with bind_topics: true. `relaybox topics grant` writes it.';

COMMENT ON COLUMN relaybox_internal.topic_role.topic IS 'The topic, which need not exist yet; *: every topic.';

COMMENT ON COLUMN relaybox_internal.topic_role.role_name IS 'The role that may read the topic, itself or by membership.';

COMMENT ON COLUMN relaybox_internal.topic_role.granted_at IS 'When it was granted.';

COMMENT ON COLUMN relaybox_internal.topic_role.granted_by IS 'The login that granted it.';

ALTER TABLE ONLY relaybox_internal.topic_role
    ADD CONSTRAINT topic_role_pkey PRIMARY KEY (topic, role_name);

CREATE TABLE relaybox_internal.unmapped_row (
    unmapped_id bigint NOT NULL,
    adoption_id integer NOT NULL,
    problem text NOT NULL,
    content text NOT NULL,
    set_aside_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    is_message boolean DEFAULT false NOT NULL
);

COMMENT ON TABLE relaybox_internal.unmapped_row IS 'Rows of adopted tables that can''t be messages, with on_unmapped: set_aside. `relaybox adopt --send-unmapped` tries them again.';

COMMENT ON COLUMN relaybox_internal.unmapped_row.content IS 'The whole row as JSON; if is_message: the message as JSON.';

COMMENT ON COLUMN relaybox_internal.unmapped_row.is_message IS 'Whether the row was a message already, of a backlog, and the outbox has refused it.';

ALTER TABLE relaybox_internal.unmapped_row ALTER COLUMN unmapped_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME relaybox_internal.unmapped_row_unmapped_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE ONLY relaybox_internal.unmapped_row
    ADD CONSTRAINT unmapped_row_pkey PRIMARY KEY (unmapped_id);

CREATE INDEX unmapped_row_adoption ON relaybox_internal.unmapped_row USING btree (adoption_id);
