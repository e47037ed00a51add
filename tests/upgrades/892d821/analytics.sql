-- of cluster 7711164589820234930

CREATE TABLE relaybox.log_1 (
    hop_id integer DEFAULT 1 CONSTRAINT log_hop_id_not_null NOT NULL,
    epoch integer CONSTRAINT log_epoch_not_null NOT NULL,
    "position" bigint CONSTRAINT log_position_not_null NOT NULL,
    index bigint CONSTRAINT log_index_not_null NOT NULL,
    message_id uuid CONSTRAINT log_message_id_not_null NOT NULL,
    sent_at timestamp with time zone CONSTRAINT log_sent_at_not_null NOT NULL,
    topic text CONSTRAINT log_topic_not_null NOT NULL,
    sender text CONSTRAINT log_sender_not_null NOT NULL,
    key text,
    headers jsonb,
    payload text,
    payload_bytes bytea,
    clock jsonb
)
PARTITION BY RANGE ("position");

CREATE TABLE relaybox.log_1_s000000 (
    hop_id integer DEFAULT 1 CONSTRAINT log_hop_id_not_null NOT NULL,
    epoch integer CONSTRAINT log_epoch_not_null NOT NULL,
    "position" bigint CONSTRAINT log_position_not_null NOT NULL,
    index bigint CONSTRAINT log_index_not_null NOT NULL,
    message_id uuid CONSTRAINT log_message_id_not_null NOT NULL,
    sent_at timestamp with time zone CONSTRAINT log_sent_at_not_null NOT NULL,
    topic text CONSTRAINT log_topic_not_null NOT NULL,
    sender text CONSTRAINT log_sender_not_null NOT NULL,
    key text,
    headers jsonb,
    payload text,
    payload_bytes bytea,
    clock jsonb
);

CREATE TABLE relaybox.log_1_s000001 (
    hop_id integer DEFAULT 1 CONSTRAINT log_hop_id_not_null NOT NULL,
    epoch integer CONSTRAINT log_epoch_not_null NOT NULL,
    "position" bigint CONSTRAINT log_position_not_null NOT NULL,
    index bigint CONSTRAINT log_index_not_null NOT NULL,
    message_id uuid CONSTRAINT log_message_id_not_null NOT NULL,
    sent_at timestamp with time zone CONSTRAINT log_sent_at_not_null NOT NULL,
    topic text CONSTRAINT log_topic_not_null NOT NULL,
    sender text CONSTRAINT log_sender_not_null NOT NULL,
    key text,
    headers jsonb,
    payload text,
    payload_bytes bytea,
    clock jsonb
);

CREATE TABLE relaybox.log_1_s000002 (
    hop_id integer DEFAULT 1 CONSTRAINT log_hop_id_not_null NOT NULL,
    epoch integer CONSTRAINT log_epoch_not_null NOT NULL,
    "position" bigint CONSTRAINT log_position_not_null NOT NULL,
    index bigint CONSTRAINT log_index_not_null NOT NULL,
    message_id uuid CONSTRAINT log_message_id_not_null NOT NULL,
    sent_at timestamp with time zone CONSTRAINT log_sent_at_not_null NOT NULL,
    topic text CONSTRAINT log_topic_not_null NOT NULL,
    sender text CONSTRAINT log_sender_not_null NOT NULL,
    key text,
    headers jsonb,
    payload text,
    payload_bytes bytea,
    clock jsonb
);

CREATE TABLE relaybox.log_1_s000003 (
    hop_id integer DEFAULT 1 CONSTRAINT log_hop_id_not_null NOT NULL,
    epoch integer CONSTRAINT log_epoch_not_null NOT NULL,
    "position" bigint CONSTRAINT log_position_not_null NOT NULL,
    index bigint CONSTRAINT log_index_not_null NOT NULL,
    message_id uuid CONSTRAINT log_message_id_not_null NOT NULL,
    sent_at timestamp with time zone CONSTRAINT log_sent_at_not_null NOT NULL,
    topic text CONSTRAINT log_topic_not_null NOT NULL,
    sender text CONSTRAINT log_sender_not_null NOT NULL,
    key text,
    headers jsonb,
    payload text,
    payload_bytes bytea,
    clock jsonb
);

CREATE TABLE relaybox.log_1_s000004 (
    hop_id integer DEFAULT 1 CONSTRAINT log_hop_id_not_null NOT NULL,
    epoch integer CONSTRAINT log_epoch_not_null NOT NULL,
    "position" bigint CONSTRAINT log_position_not_null NOT NULL,
    index bigint CONSTRAINT log_index_not_null NOT NULL,
    message_id uuid CONSTRAINT log_message_id_not_null NOT NULL,
    sent_at timestamp with time zone CONSTRAINT log_sent_at_not_null NOT NULL,
    topic text CONSTRAINT log_topic_not_null NOT NULL,
    sender text CONSTRAINT log_sender_not_null NOT NULL,
    key text,
    headers jsonb,
    payload text,
    payload_bytes bytea,
    clock jsonb
);

CREATE TABLE relaybox.migration (
    number integer NOT NULL,
    name text NOT NULL,
    applied_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

CREATE SEQUENCE relaybox.outbox_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

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
    CONSTRAINT clock_is_an_object CHECK (((jsonb_typeof(clock) = 'object'::text) AND (octet_length((clock)::text) <= 65536))),
    CONSTRAINT headers_are_an_object CHECK ((jsonb_typeof(headers) = 'object'::text)),
    CONSTRAINT headers_at_most_64_kib CHECK ((octet_length((headers)::text) <= 65536)),
    CONSTRAINT index_and_epoch_positive CHECK (((index >= 1) AND (epoch >= 1))),
    CONSTRAINT index_below_the_largest CHECK ((index < '9223372036854775807'::bigint)),
    CONSTRAINT key_at_most_200_characters CHECK ((length(key) <= 200)),
    CONSTRAINT message_has_exactly_one_payload CHECK ((num_nonnulls(payload, payload_bytes) = 1)),
    CONSTRAINT payload_at_most_16_mib CHECK (((octet_length(payload) <= 16777216) AND (octet_length(payload_bytes) <= 16777216))),
    CONSTRAINT sender_is_a_plain_name CHECK ((sender ~ '^[A-Za-z0-9_.:-]{1,48}$'::text)),
    CONSTRAINT topic_is_a_plain_name CHECK ((topic ~ '^[a-z0-9_.-]{1,48}$'::text))
)
PARTITION BY RANGE (seq);

CREATE TABLE relaybox.outbox_overflow (
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
    CONSTRAINT clock_is_an_object CHECK (((jsonb_typeof(clock) = 'object'::text) AND (octet_length((clock)::text) <= 65536))),
    CONSTRAINT headers_are_an_object CHECK ((jsonb_typeof(headers) = 'object'::text)),
    CONSTRAINT headers_at_most_64_kib CHECK ((octet_length((headers)::text) <= 65536)),
    CONSTRAINT index_and_epoch_positive CHECK (((index >= 1) AND (epoch >= 1))),
    CONSTRAINT index_below_the_largest CHECK ((index < '9223372036854775807'::bigint)),
    CONSTRAINT key_at_most_200_characters CHECK ((length(key) <= 200)),
    CONSTRAINT message_has_exactly_one_payload CHECK ((num_nonnulls(payload, payload_bytes) = 1)),
    CONSTRAINT payload_at_most_16_mib CHECK (((octet_length(payload) <= 16777216) AND (octet_length(payload_bytes) <= 16777216))),
    CONSTRAINT sender_is_a_plain_name CHECK ((sender ~ '^[A-Za-z0-9_.:-]{1,48}$'::text)),
    CONSTRAINT topic_is_a_plain_name CHECK ((topic ~ '^[a-z0-9_.-]{1,48}$'::text))
);

CREATE TABLE relaybox.outbox_s000000 (
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
    CONSTRAINT clock_is_an_object CHECK (((jsonb_typeof(clock) = 'object'::text) AND (octet_length((clock)::text) <= 65536))),
    CONSTRAINT headers_are_an_object CHECK ((jsonb_typeof(headers) = 'object'::text)),
    CONSTRAINT headers_at_most_64_kib CHECK ((octet_length((headers)::text) <= 65536)),
    CONSTRAINT index_and_epoch_positive CHECK (((index >= 1) AND (epoch >= 1))),
    CONSTRAINT index_below_the_largest CHECK ((index < '9223372036854775807'::bigint)),
    CONSTRAINT key_at_most_200_characters CHECK ((length(key) <= 200)),
    CONSTRAINT message_has_exactly_one_payload CHECK ((num_nonnulls(payload, payload_bytes) = 1)),
    CONSTRAINT payload_at_most_16_mib CHECK (((octet_length(payload) <= 16777216) AND (octet_length(payload_bytes) <= 16777216))),
    CONSTRAINT sender_is_a_plain_name CHECK ((sender ~ '^[A-Za-z0-9_.:-]{1,48}$'::text)),
    CONSTRAINT topic_is_a_plain_name CHECK ((topic ~ '^[a-z0-9_.-]{1,48}$'::text))
);

CREATE TABLE relaybox.outbox_s000001 (
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
    CONSTRAINT clock_is_an_object CHECK (((jsonb_typeof(clock) = 'object'::text) AND (octet_length((clock)::text) <= 65536))),
    CONSTRAINT headers_are_an_object CHECK ((jsonb_typeof(headers) = 'object'::text)),
    CONSTRAINT headers_at_most_64_kib CHECK ((octet_length((headers)::text) <= 65536)),
    CONSTRAINT index_and_epoch_positive CHECK (((index >= 1) AND (epoch >= 1))),
    CONSTRAINT index_below_the_largest CHECK ((index < '9223372036854775807'::bigint)),
    CONSTRAINT key_at_most_200_characters CHECK ((length(key) <= 200)),
    CONSTRAINT message_has_exactly_one_payload CHECK ((num_nonnulls(payload, payload_bytes) = 1)),
    CONSTRAINT payload_at_most_16_mib CHECK (((octet_length(payload) <= 16777216) AND (octet_length(payload_bytes) <= 16777216))),
    CONSTRAINT sender_is_a_plain_name CHECK ((sender ~ '^[A-Za-z0-9_.:-]{1,48}$'::text)),
    CONSTRAINT topic_is_a_plain_name CHECK ((topic ~ '^[a-z0-9_.-]{1,48}$'::text))
);

CREATE TABLE relaybox.outbox_s000002 (
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
    CONSTRAINT clock_is_an_object CHECK (((jsonb_typeof(clock) = 'object'::text) AND (octet_length((clock)::text) <= 65536))),
    CONSTRAINT headers_are_an_object CHECK ((jsonb_typeof(headers) = 'object'::text)),
    CONSTRAINT headers_at_most_64_kib CHECK ((octet_length((headers)::text) <= 65536)),
    CONSTRAINT index_and_epoch_positive CHECK (((index >= 1) AND (epoch >= 1))),
    CONSTRAINT index_below_the_largest CHECK ((index < '9223372036854775807'::bigint)),
    CONSTRAINT key_at_most_200_characters CHECK ((length(key) <= 200)),
    CONSTRAINT message_has_exactly_one_payload CHECK ((num_nonnulls(payload, payload_bytes) = 1)),
    CONSTRAINT payload_at_most_16_mib CHECK (((octet_length(payload) <= 16777216) AND (octet_length(payload_bytes) <= 16777216))),
    CONSTRAINT sender_is_a_plain_name CHECK ((sender ~ '^[A-Za-z0-9_.:-]{1,48}$'::text)),
    CONSTRAINT topic_is_a_plain_name CHECK ((topic ~ '^[a-z0-9_.-]{1,48}$'::text))
);

CREATE TABLE relaybox.outbox_s000003 (
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
    CONSTRAINT clock_is_an_object CHECK (((jsonb_typeof(clock) = 'object'::text) AND (octet_length((clock)::text) <= 65536))),
    CONSTRAINT headers_are_an_object CHECK ((jsonb_typeof(headers) = 'object'::text)),
    CONSTRAINT headers_at_most_64_kib CHECK ((octet_length((headers)::text) <= 65536)),
    CONSTRAINT index_and_epoch_positive CHECK (((index >= 1) AND (epoch >= 1))),
    CONSTRAINT index_below_the_largest CHECK ((index < '9223372036854775807'::bigint)),
    CONSTRAINT key_at_most_200_characters CHECK ((length(key) <= 200)),
    CONSTRAINT message_has_exactly_one_payload CHECK ((num_nonnulls(payload, payload_bytes) = 1)),
    CONSTRAINT payload_at_most_16_mib CHECK (((octet_length(payload) <= 16777216) AND (octet_length(payload_bytes) <= 16777216))),
    CONSTRAINT sender_is_a_plain_name CHECK ((sender ~ '^[A-Za-z0-9_.:-]{1,48}$'::text)),
    CONSTRAINT topic_is_a_plain_name CHECK ((topic ~ '^[a-z0-9_.-]{1,48}$'::text))
);

CREATE TABLE relaybox.outbox_s000004 (
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
    CONSTRAINT clock_is_an_object CHECK (((jsonb_typeof(clock) = 'object'::text) AND (octet_length((clock)::text) <= 65536))),
    CONSTRAINT headers_are_an_object CHECK ((jsonb_typeof(headers) = 'object'::text)),
    CONSTRAINT headers_at_most_64_kib CHECK ((octet_length((headers)::text) <= 65536)),
    CONSTRAINT index_and_epoch_positive CHECK (((index >= 1) AND (epoch >= 1))),
    CONSTRAINT index_below_the_largest CHECK ((index < '9223372036854775807'::bigint)),
    CONSTRAINT key_at_most_200_characters CHECK ((length(key) <= 200)),
    CONSTRAINT message_has_exactly_one_payload CHECK ((num_nonnulls(payload, payload_bytes) = 1)),
    CONSTRAINT payload_at_most_16_mib CHECK (((octet_length(payload) <= 16777216) AND (octet_length(payload_bytes) <= 16777216))),
    CONSTRAINT sender_is_a_plain_name CHECK ((sender ~ '^[A-Za-z0-9_.:-]{1,48}$'::text)),
    CONSTRAINT topic_is_a_plain_name CHECK ((topic ~ '^[a-z0-9_.-]{1,48}$'::text))
);

CREATE TABLE relaybox.receipt (
    hop_id integer NOT NULL,
    batch bigint NOT NULL,
    slice integer NOT NULL,
    plan_id uuid NOT NULL,
    row_count bigint NOT NULL,
    attempt bigint NOT NULL,
    copied_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

CREATE TABLE relaybox.replay_range (
    replay_range_id bigint NOT NULL,
    subscription_id integer NOT NULL,
    first_place bigint NOT NULL,
    last_place bigint NOT NULL,
    asked_by text[] NOT NULL,
    reason text NOT NULL,
    begun_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    done_at timestamp with time zone,
    CONSTRAINT replay_range_not_empty CHECK (((last_place >= first_place) AND (first_place >= 1))),
    CONSTRAINT somebody_asked_for_it CHECK ((cardinality(asked_by) >= 1))
);

COMMENT ON COLUMN relaybox.replay_range.subscription_id IS 'the second cursor';

COMMENT ON COLUMN relaybox.replay_range.asked_by IS 'whoever asked for it, and those who joined: a run of Airflow, how often it was cleared';

COMMENT ON COLUMN relaybox.replay_range.done_at IS 'written when the cursor''s next range begins; of the newest range its lanes tell';

ALTER TABLE relaybox.replay_range ALTER COLUMN replay_range_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME relaybox.replay_range_replay_range_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE relaybox.seen (
    sender_id integer NOT NULL,
    chunk bigint NOT NULL,
    indexes int8multirange NOT NULL,
    fragments integer NOT NULL
);

CREATE TABLE relaybox.sender (
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

CREATE TABLE relaybox.sender_counter (
    sender text NOT NULL,
    epoch integer NOT NULL,
    last_index bigint DEFAULT 0 NOT NULL
);

CREATE TABLE relaybox.sender_role (
    sender text NOT NULL,
    role_name name NOT NULL,
    bound_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    bound_by text DEFAULT SESSION_USER NOT NULL
);

CREATE TABLE relaybox.sender_state (
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

COMMENT ON COLUMN relaybox.sender_state.watermark IS 'every index up to it was delivered, set aside or skipped';

COMMENT ON COLUMN relaybox.sender_state.skipped IS 'indexes that an operator gave up';

COMMENT ON COLUMN relaybox.sender_state.begun_at IS 'arrival number of its first accepted message; lower epochs are refused from there on';

COMMENT ON COLUMN relaybox.sender_state.stalled_after IS 'messages of this sender beyond this position of its log wait there, undecided and unlisted';

COMMENT ON COLUMN relaybox.sender_state.range_first_index IS 'with the other three: where in the log to look for the newest indexes';

ALTER TABLE relaybox.sender_state ALTER COLUMN sender_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME relaybox.sender_state_sender_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE relaybox.skip (
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

ALTER TABLE relaybox.skip ALTER COLUMN skip_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME relaybox.skip_skip_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE relaybox.store (
    only_row boolean DEFAULT true NOT NULL,
    store text NOT NULL,
    segment_rows bigint NOT NULL,
    functions_digest text,
    initialised_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    first_kept_seq bigint DEFAULT 1 NOT NULL,
    CONSTRAINT first_kept_seq_positive CHECK ((first_kept_seq >= 1)),
    CONSTRAINT segment_rows_positive CHECK ((segment_rows > 0)),
    CONSTRAINT store_has_one_row CHECK (only_row)
);

COMMENT ON COLUMN relaybox.store.first_kept_seq IS 'segments of the outbox below it were dropped';

ALTER TABLE relaybox.stream ALTER COLUMN stream_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME relaybox.stream_stream_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE relaybox.stream_topic (
    stream_id integer NOT NULL,
    topic text NOT NULL
);

ALTER TABLE relaybox.subscription ALTER COLUMN subscription_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME relaybox.subscription_subscription_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE VIEW relaybox.subscriptions WITH (security_barrier='true') AS
 SELECT n.subscription,
    s.stream,
    n.topic,
    n.lanes,
    n.lane_by,
    n.first_place,
    n.through_place,
    parent.subscription AS replay_of,
    n.rows_per_second,
    n.nack_limit,
    n.crash_limit,
    n.hold_sender,
    n.retry_seconds,
    n.lease_seconds,
    n.subscribed_at,
    n.subscribed_by,
    c.done_place,
    c.replaying,
    c.leased_lanes,
    c.moved_at,
    GREATEST(c.done_place, LEAST(n.through_place, s.last_place)) AS last_place,
    GREATEST((0)::bigint, (LEAST(n.through_place, s.last_place) - c.done_place)) AS places_behind,
    GREATEST((0)::bigint, (LEAST(n.through_place, (s.first_kept_place - 1)) - GREATEST(c.done_place, s.dropped_place))) AS detached_places,
    ( SELECT count(*) AS count
           FROM relaybox.dead_letter d
          WHERE ((d.subscription_id = n.subscription_id) AND (d.state = ANY (ARRAY['open'::text, 'redriving'::text])))) AS dead_letters
   FROM (((relaybox.subscription n
     JOIN relaybox.stream s ON ((s.stream_id = n.stream_id)))
     LEFT JOIN relaybox.subscription parent ON ((parent.subscription_id = n.replay_of)))
     JOIN LATERAL ( SELECT min(k.done_place) AS done_place,
            bool_or((k.done_place < k.replay_place)) AS replaying,
            max(k.moved_at) AS moved_at,
            count(*) FILTER (WHERE (k.leased_until > clock_timestamp())) AS leased_lanes
           FROM relaybox.lane_cursors k
          WHERE (k.subscription_id = n.subscription_id)) c ON (true))
  WHERE (n.ended_at IS NULL);

ALTER TABLE ONLY relaybox.log ATTACH PARTITION relaybox.log_1 FOR VALUES IN (1);

ALTER TABLE ONLY relaybox.log_1 ATTACH PARTITION relaybox.log_1_s000000 FOR VALUES FROM ('0') TO ('10');

ALTER TABLE ONLY relaybox.log_1 ATTACH PARTITION relaybox.log_1_s000001 FOR VALUES FROM ('10') TO ('20');

ALTER TABLE ONLY relaybox.log_1 ATTACH PARTITION relaybox.log_1_s000002 FOR VALUES FROM ('20') TO ('30');

ALTER TABLE ONLY relaybox.log_1 ATTACH PARTITION relaybox.log_1_s000003 FOR VALUES FROM ('30') TO ('40');

ALTER TABLE ONLY relaybox.log_1 ATTACH PARTITION relaybox.log_1_s000004 FOR VALUES FROM ('40') TO ('50');

ALTER TABLE ONLY relaybox.outbox ATTACH PARTITION relaybox.outbox_overflow DEFAULT;

ALTER TABLE ONLY relaybox.outbox ATTACH PARTITION relaybox.outbox_s000000 FOR VALUES FROM ('0') TO ('10');

ALTER TABLE ONLY relaybox.outbox ATTACH PARTITION relaybox.outbox_s000001 FOR VALUES FROM ('10') TO ('20');

ALTER TABLE ONLY relaybox.outbox ATTACH PARTITION relaybox.outbox_s000002 FOR VALUES FROM ('20') TO ('30');

ALTER TABLE ONLY relaybox.outbox ATTACH PARTITION relaybox.outbox_s000003 FOR VALUES FROM ('30') TO ('40');

ALTER TABLE ONLY relaybox.outbox ATTACH PARTITION relaybox.outbox_s000004 FOR VALUES FROM ('40') TO ('50');

INSERT INTO relaybox.arrival VALUES
	(1, 1, '87b4c4f1-da6b-47a9-8782-c03ca5b397bb', 1, 27, 27, 1, 7711164587783560326, 1, '2026-11-23 00:56:58.802922+00', true);









INSERT INTO relaybox.consumer_action OVERRIDING SYSTEM VALUE VALUES
	(1, 'billing', 'subscribe', '{"lanes": 1, "start": "earliest", "source": "flights", "first_place": 1}', NULL, '2026-11-23 00:57:13.363492+00', 'relaybox'),
	(2, 'billing', 'replay', '{"as": "billing.replay-1", "start": "earliest", "last_place": 5, "first_place": 1, "rows_per_second": null}', 'wrong month', '2026-11-23 00:57:13.447329+00', 'relaybox');

INSERT INTO relaybox.cursor VALUES
	(1, 1, 1, 0, 0, NULL, 0, 0, NULL, NULL, NULL, NULL, 0, NULL, '2026-11-23 00:57:13.362691+00'),
	(1, 1, 2, 0, 8, NULL, 1, 0, NULL, 'one', '2026-11-23 00:58:13.373539+00', NULL, 0, NULL, '2026-11-23 00:57:13.37723+00'),
	(1, 1, 3, 7, 8, NULL, 1, 0, NULL, 'one', '2026-11-23 00:58:13.390139+00', NULL, 0, NULL, '2026-11-23 00:57:13.390293+00'),
	(1, 1, 4, 7, 8, NULL, 0, 0, NULL, NULL, NULL, NULL, 0, NULL, '2026-11-23 00:57:13.409325+00'),
	(1, 1, 5, 8, 12, NULL, 1, 0, NULL, 'one', '2026-11-23 00:58:13.423372+00', NULL, 0, NULL, '2026-11-23 00:57:13.429966+00'),
	(2, 1, 1, 0, 0, NULL, 0, 0, NULL, NULL, NULL, NULL, 5, NULL, '2026-11-23 00:57:13.446705+00');

INSERT INTO relaybox.dead_letter OVERRIDING SYSTEM VALUE VALUES
	(1, 1, 8, 'refused', 'no such flight', '2026-11-23 00:57:13.402729+00', 1, 1, 1, 8, 'UA', 1, '2026-11-23 00:57:13.404099+00', 'one', 'open', NULL, NULL, NULL);

INSERT INTO relaybox.decision VALUES
	(1, 1, 1, 27, 0, 0, 26, 1, 26, NULL, false, '2026-11-23 00:56:58.826674+00', 26);

INSERT INTO relaybox.delivery VALUES
	(1, 1, 26, 1, 1, NULL, '2026-11-23 00:56:58.822718+00');











INSERT INTO relaybox.held VALUES
	(1, 27, 1, 1, 4, 27, '2026-11-23 00:56:58.824432+00');

INSERT INTO relaybox.hop_in OVERRIDING SYSTEM VALUE VALUES
	(1, 'flights/2', 'hub', 1, 27, '2026-11-23 00:56:56.470124+00', 1, NULL, 'alarm', 1, 0, 0, 86400, NULL);





INSERT INTO relaybox.lane VALUES
	(1, 1),
	(2, 1);

INSERT INTO relaybox.log_1_s000000 VALUES
	(1, 0, 1, 1, '01a205e7-f269-7249-a1c6-2697449513de', '2026-11-23 00:56:56.681157+00', 'flights', 'UA', NULL, NULL, 'first 1', NULL, NULL),
	(1, 0, 2, 2, '01a205e7-f269-7e1e-8a4c-ecf1301ce744', '2026-11-23 00:56:56.681888+00', 'flights', 'UA', NULL, NULL, 'first 2', NULL, NULL),
	(1, 0, 3, 3, '01a205e7-f269-7e79-bea7-5b2bb3f5fe2d', '2026-11-23 00:56:56.681906+00', 'flights', 'UA', NULL, NULL, 'first 3', NULL, NULL),
	(1, 0, 4, 4, '01a205e7-f269-7e9f-a33f-2b1b56fdf37f', '2026-11-23 00:56:56.681915+00', 'flights', 'UA', NULL, NULL, 'first 4', NULL, NULL),
	(1, 0, 5, 5, '01a205e7-f269-7ec2-8c24-ce48106a2c4d', '2026-11-23 00:56:56.681924+00', 'flights', 'UA', NULL, NULL, 'first 5', NULL, NULL),
	(1, 0, 6, 6, '01a205e7-f269-7ee1-a7fd-037113d13ad4', '2026-11-23 00:56:56.681931+00', 'flights', 'UA', NULL, NULL, 'first 6', NULL, NULL),
	(1, 0, 7, 7, '01a205e7-f269-7f00-a48c-f715bb19177e', '2026-11-23 00:56:56.681939+00', 'flights', 'UA', NULL, NULL, 'first 7', NULL, NULL),
	(1, 0, 8, 8, '01a205e7-f269-7f1e-9808-017c7f050676', '2026-11-23 00:56:56.681946+00', 'flights', 'UA', NULL, NULL, 'first 8', NULL, NULL),
	(1, 0, 9, 9, '01a205e7-f269-7f45-8512-b43935506cfb', '2026-11-23 00:56:56.681956+00', 'flights', 'UA', NULL, NULL, 'first 9', NULL, NULL);

INSERT INTO relaybox.log_1_s000001 VALUES
	(1, 0, 10, 10, '01a205e7-f269-7f65-bc9d-728ff3787995', '2026-11-23 00:56:56.681963+00', 'flights', 'UA', NULL, NULL, 'first 10', NULL, NULL),
	(1, 0, 11, 11, '01a205e7-f26a-762d-aa66-e60857bd3745', '2026-11-23 00:56:56.68239+00', 'flights', 'UA', NULL, NULL, 'first 11', NULL, NULL),
	(1, 0, 12, 12, '01a205e7-f26a-7674-9598-b2a57397f7d3', '2026-11-23 00:56:56.682405+00', 'flights', 'UA', NULL, NULL, 'first 12', NULL, NULL),
	(1, 0, 13, 13, '01a205e7-f26a-7697-b859-68e2cd435652', '2026-11-23 00:56:56.682413+00', 'flights', 'UA', NULL, NULL, 'first 13', NULL, NULL),
	(1, 0, 14, 14, '01a205e7-f26a-76b9-a9ea-2825c2fd5c9d', '2026-11-23 00:56:56.682421+00', 'flights', 'UA', NULL, NULL, 'first 14', NULL, NULL),
	(1, 0, 15, 15, '01a205e7-f26a-76d7-8462-c432d940a33b', '2026-11-23 00:56:56.682429+00', 'flights', 'UA', NULL, NULL, 'first 15', NULL, NULL),
	(1, 0, 16, 16, '01a205e7-f26a-76f5-919d-cc7b9e7f617b', '2026-11-23 00:56:56.682436+00', 'flights', 'UA', NULL, NULL, 'first 16', NULL, NULL),
	(1, 0, 17, 17, '01a205e7-f26a-7714-8f5e-780d17559d09', '2026-11-23 00:56:56.682443+00', 'flights', 'UA', NULL, NULL, 'first 17', NULL, NULL),
	(1, 0, 18, 18, '01a205e7-f26a-7732-a590-715a6800743a', '2026-11-23 00:56:56.682451+00', 'flights', 'UA', NULL, NULL, 'first 18', NULL, NULL),
	(1, 0, 19, 19, '01a205e7-f26a-774f-884a-ca610e3e03f4', '2026-11-23 00:56:56.682458+00', 'flights', 'UA', NULL, NULL, 'first 19', NULL, NULL);

INSERT INTO relaybox.log_1_s000002 VALUES
	(1, 0, 20, 20, '01a205e7-f26a-776e-b563-784d69faa7fc', '2026-11-23 00:56:56.682466+00', 'flights', 'UA', NULL, NULL, 'first 20', NULL, NULL),
	(1, 0, 21, 21, '01a205e7-f26a-7b99-9fc2-ed9c8f741209', '2026-11-23 00:56:56.682727+00', 'flights', 'UA', NULL, NULL, 'first 21', NULL, NULL),
	(1, 0, 22, 22, '01a205e7-f26a-7bc4-8374-a905348ffc0e', '2026-11-23 00:56:56.682737+00', 'flights', 'UA', NULL, NULL, 'first 22', NULL, NULL),
	(1, 0, 23, 23, '01a205e7-f26a-7be4-bed8-74002fc6acf6', '2026-11-23 00:56:56.682744+00', 'flights', 'UA', NULL, NULL, 'first 23', NULL, NULL),
	(1, 0, 24, 24, '01a205e7-f26a-7c03-af1f-830259d73565', '2026-11-23 00:56:56.682752+00', 'flights', 'UA', NULL, NULL, 'first 24', NULL, NULL),
	(1, 1, 25, 1, '01a205e7-f26f-72f4-835f-3e499ca42848', '2026-11-23 00:56:56.687194+00', 'flights', 'pump-7', NULL, NULL, 'pumped 1', NULL, NULL),
	(1, 1, 26, 2, '01a205e7-f26f-7941-a221-38e61d23122c', '2026-11-23 00:56:56.687582+00', 'flights', 'pump-7', NULL, NULL, 'pumped 2', NULL, NULL),
	(1, 1, 27, 4, '01a205e7-f26f-797c-842b-785430b5b079', '2026-11-23 00:56:56.687594+00', 'flights', 'pump-7', NULL, NULL, 'pumped 4', NULL, NULL),
	(1, 0, 28, 28, '01a205e8-33ec-7e20-b0a2-4642fc8d2298', '2026-11-23 00:57:13.452898+00', 'flights', 'LH', NULL, NULL, 'copied 1', NULL, NULL),
	(1, 0, 29, 29, '01a205e8-33ed-77b3-863a-adac11e38fca', '2026-11-23 00:57:13.453488+00', 'flights', 'LH', NULL, NULL, 'copied 2', NULL, NULL);

INSERT INTO relaybox.log_1_s000003 VALUES
	(1, 0, 30, 30, '01a205e8-33ed-7817-a358-6d3631a18727', '2026-11-23 00:57:13.453507+00', 'flights', 'LH', NULL, NULL, 'copied 3', NULL, NULL),
	(1, 0, 31, 31, '01a205e8-33ee-760a-b1f5-d4c714e09a2c', '2026-11-23 00:57:13.454386+00', 'flights', 'LH', NULL, NULL, 'copied 4', NULL, NULL),
	(1, 0, 32, 32, '01a205e8-33ee-769e-8c1e-183483d1952d', '2026-11-23 00:57:13.454416+00', 'flights', 'LH', NULL, NULL, 'copied 5', NULL, NULL),
	(1, 0, 33, 33, '01a205e8-33ee-76d2-8d59-ba1442c4185b', '2026-11-23 00:57:13.454428+00', 'flights', 'LH', NULL, NULL, 'copied 6', NULL, NULL),
	(1, 0, 34, 34, '01a205e8-33ee-770b-9c96-b151cc28401b', '2026-11-23 00:57:13.454442+00', 'flights', 'LH', NULL, NULL, 'copied 7', NULL, NULL),
	(1, 0, 35, 35, '01a205e8-33ee-773d-9a44-95ce2d057ccd', '2026-11-23 00:57:13.454455+00', 'flights', 'LH', NULL, NULL, 'copied 8', NULL, NULL),
	(1, 0, 36, 36, '01a205e8-33ee-776c-ad50-85da70bc2cb0', '2026-11-23 00:57:13.454466+00', 'flights', 'LH', NULL, NULL, 'copied 9', NULL, NULL),
	(1, 0, 37, 37, '01a205e8-33ee-779b-9ba7-fd3647b21276', '2026-11-23 00:57:13.454477+00', 'flights', 'LH', NULL, NULL, 'copied 10', NULL, NULL),
	(1, 0, 38, 38, '01a205e8-33ee-77ce-a56c-86134fc43b74', '2026-11-23 00:57:13.45449+00', 'flights', 'LH', NULL, NULL, 'copied 11', NULL, NULL),
	(1, 0, 39, 39, '01a205e8-33ee-7809-bc36-c3e3def9b682', '2026-11-23 00:57:13.454504+00', 'flights', 'LH', NULL, NULL, 'copied 12', NULL, NULL);



INSERT INTO relaybox.migration VALUES
	(1, 'stores', '2026-11-23 00:56:56.353632+00'),
	(2, 'outbox', '2026-11-23 00:56:56.357661+00'),
	(3, 'hops', '2026-11-23 00:56:56.360927+00'),
	(4, 'batches', '2026-11-23 00:56:56.363972+00'),
	(5, 'logs', '2026-11-23 00:56:56.366736+00'),
	(6, 'generations', '2026-11-23 00:56:56.372959+00'),
	(7, 'digests', '2026-11-23 00:56:56.375932+00'),
	(8, 'streams', '2026-11-23 00:56:56.395279+00'),
	(9, 'subscriptions', '2026-11-23 00:56:56.40693+00'),
	(10, 'retention', '2026-11-23 00:56:56.410337+00'),
	(11, 'processed', '2026-11-23 00:56:56.411322+00'),
	(12, 'replays', '2026-11-23 00:56:56.413094+00'),
	(13, 'senders_taken', '2026-11-23 00:56:56.413416+00'),
	(14, 'topics_by_subscription', '2026-11-23 00:56:56.413777+00'),
	(15, 'stalled_watermark', '2026-11-23 00:56:56.41394+00'),
	(16, 'detached_segments', '2026-11-23 00:56:56.416983+00'),
	(17, 'attempts', '2026-11-23 00:56:56.418758+00'),
	(18, 'retired_hops', '2026-11-23 00:56:56.421646+00');













INSERT INTO relaybox.receipt VALUES
	(1, 1, 1, '87b4c4f1-da6b-47a9-8782-c03ca5b397bb', 27, 1, '2026-11-23 00:56:58.793131+00'),
	(1, 2, 1, 'f73627a5-1315-4a3e-a507-9471ce275276', 12, 2, '2026-11-23 00:57:15.481915+00');





INSERT INTO relaybox.sender VALUES
	('airline', 'pump-7', 1, 'gapless', '2026-11-23 00:56:56.669219+00', 'relaybox', '759');





INSERT INTO relaybox.sender_state OVERRIDING SYSTEM VALUE VALUES
	(1, 1, 'pump-7', 1, 'airline', 'gapless', 2, 0, 0, 1, '{}', 25, NULL, NULL, 1, 4, 25, 27, '2026-11-23 00:56:58.824173+00', NULL);



INSERT INTO relaybox.store VALUES
	(true, 'analytics', 10, '334d61fe7e0ccbcf1d87f98e9179231691c8ab3cccfde332318adb8e085236b7', '2026-11-23 00:56:56.421854+00', 1);

INSERT INTO relaybox.stream OVERRIDING SYSTEM VALUE VALUES
	(1, 'flights', 'fifo', 10, 10000, 1000000, 27, 26, false, '2026-11-23 00:56:56.475097+00', 1, false, 0);

INSERT INTO relaybox.stream_log VALUES
	(1, 1, 'airline', 1, 27, '765:765:', 0, 0);

INSERT INTO relaybox.stream_topic VALUES
	(1, 'flights');

INSERT INTO relaybox.subscription OVERRIDING SYSTEM VALUE VALUES
	(1, 'billing', 1, NULL, 1, 'sender', -6882529561205536074, 1, NULL, NULL, NULL, 1, 5, false, 0, 60, '2026-11-23 00:57:13.360924+00', 'relaybox', NULL),
	(2, 'billing.replay-1', 1, NULL, 1, 'sender', -6882529561205536074, 1, 5, 1, NULL, 1, 5, false, 0, 60, '2026-11-23 00:57:13.445751+00', 'relaybox', NULL);

SELECT pg_catalog.setval('relaybox.consumer_action_action_id_seq', 2, true);

SELECT pg_catalog.setval('relaybox.dead_letter_dead_letter_id_seq', 1, true);

SELECT pg_catalog.setval('relaybox.hop_in_hop_id_seq', 1, true);

SELECT pg_catalog.setval('relaybox.outbox_seq', 1, false);

SELECT pg_catalog.setval('relaybox.replay_range_replay_range_id_seq', 1, false);

SELECT pg_catalog.setval('relaybox.sender_state_sender_id_seq', 1, true);

SELECT pg_catalog.setval('relaybox.skip_skip_id_seq', 1, false);

SELECT pg_catalog.setval('relaybox.stream_stream_id_seq', 1, true);

SELECT pg_catalog.setval('relaybox.subscription_subscription_id_seq', 2, true);

ALTER TABLE ONLY relaybox.arrival
    ADD CONSTRAINT arrival_pkey PRIMARY KEY (hop_id, batch);

ALTER TABLE ONLY relaybox.attempt
    ADD CONSTRAINT attempt_pkey PRIMARY KEY (hop, batch, attempt);

ALTER TABLE ONLY relaybox.attestation
    ADD CONSTRAINT attestation_pkey PRIMARY KEY (attested_at);

ALTER TABLE ONLY relaybox.batch
    ADD CONSTRAINT batch_pkey PRIMARY KEY (hop, batch);

ALTER TABLE ONLY relaybox.confirmation
    ADD CONSTRAINT confirmation_pkey PRIMARY KEY (hop, state, through_position);

ALTER TABLE ONLY relaybox.consumer_action
    ADD CONSTRAINT consumer_action_pkey PRIMARY KEY (action_id);

ALTER TABLE ONLY relaybox.cursor
    ADD CONSTRAINT cursor_pkey PRIMARY KEY (subscription_id, lane, version);

ALTER TABLE ONLY relaybox.dead_letter
    ADD CONSTRAINT dead_letter_pkey PRIMARY KEY (dead_letter_id);

ALTER TABLE ONLY relaybox.decision
    ADD CONSTRAINT decision_pkey PRIMARY KEY (hop_id, batch);

ALTER TABLE ONLY relaybox.delivery
    ADD CONSTRAINT delivery_pkey PRIMARY KEY (stream_id, last_place);

ALTER TABLE ONLY relaybox.detached_segment
    ADD CONSTRAINT detached_segment_pkey PRIMARY KEY (hop_id, first);

ALTER TABLE ONLY relaybox.dropped_segment
    ADD CONSTRAINT dropped_segment_pkey PRIMARY KEY (dropped_at, segment);

ALTER TABLE ONLY relaybox.failed_attempt
    ADD CONSTRAINT failed_attempt_pkey PRIMARY KEY (subscription_id, lane, place);

ALTER TABLE ONLY relaybox.generation
    ADD CONSTRAINT generation_pkey PRIMARY KEY (hop, generation);

ALTER TABLE ONLY relaybox.ghost
    ADD CONSTRAINT ghost_pkey PRIMARY KEY (hop, "position");

ALTER TABLE ONLY relaybox.held
    ADD CONSTRAINT held_pkey PRIMARY KEY (hop_id, "position");

ALTER TABLE ONLY relaybox.hop_in
    ADD CONSTRAINT hop_arrives_once UNIQUE (hop);

ALTER TABLE ONLY relaybox.hop_in
    ADD CONSTRAINT hop_in_pkey PRIMARY KEY (hop_id);

ALTER TABLE ONLY relaybox.hop_out
    ADD CONSTRAINT hop_out_pkey PRIMARY KEY (hop);

ALTER TABLE ONLY relaybox.index_range
    ADD CONSTRAINT index_range_pkey PRIMARY KEY (sender_id, last_index, first_position);

ALTER TABLE ONLY relaybox.lane
    ADD CONSTRAINT lane_pkey PRIMARY KEY (subscription_id, lane);

ALTER TABLE ONLY relaybox.log
    ADD CONSTRAINT log_pkey PRIMARY KEY (hop_id, "position");

ALTER TABLE ONLY relaybox.log_1
    ADD CONSTRAINT log_1_pkey PRIMARY KEY (hop_id, "position");

ALTER TABLE ONLY relaybox.log_1_s000000
    ADD CONSTRAINT log_1_s000000_pkey PRIMARY KEY (hop_id, "position");

ALTER TABLE ONLY relaybox.log_1_s000001
    ADD CONSTRAINT log_1_s000001_pkey PRIMARY KEY (hop_id, "position");

ALTER TABLE ONLY relaybox.log_1_s000002
    ADD CONSTRAINT log_1_s000002_pkey PRIMARY KEY (hop_id, "position");

ALTER TABLE ONLY relaybox.log_1_s000003
    ADD CONSTRAINT log_1_s000003_pkey PRIMARY KEY (hop_id, "position");

ALTER TABLE ONLY relaybox.log_1_s000004
    ADD CONSTRAINT log_1_s000004_pkey PRIMARY KEY (hop_id, "position");

ALTER TABLE ONLY relaybox.migration
    ADD CONSTRAINT migration_pkey PRIMARY KEY (number);

ALTER TABLE ONLY relaybox.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (seq);

ALTER TABLE ONLY relaybox.outbox_overflow
    ADD CONSTRAINT outbox_overflow_pkey PRIMARY KEY (seq);

ALTER TABLE ONLY relaybox.outbox_s000000
    ADD CONSTRAINT outbox_s000000_pkey PRIMARY KEY (seq);

ALTER TABLE ONLY relaybox.outbox_s000001
    ADD CONSTRAINT outbox_s000001_pkey PRIMARY KEY (seq);

ALTER TABLE ONLY relaybox.outbox_s000002
    ADD CONSTRAINT outbox_s000002_pkey PRIMARY KEY (seq);

ALTER TABLE ONLY relaybox.outbox_s000003
    ADD CONSTRAINT outbox_s000003_pkey PRIMARY KEY (seq);

ALTER TABLE ONLY relaybox.outbox_s000004
    ADD CONSTRAINT outbox_s000004_pkey PRIMARY KEY (seq);

ALTER TABLE ONLY relaybox.receipt
    ADD CONSTRAINT receipt_pkey PRIMARY KEY (hop_id, batch, slice);

ALTER TABLE ONLY relaybox.replay_range
    ADD CONSTRAINT replay_range_pkey PRIMARY KEY (replay_range_id);

ALTER TABLE ONLY relaybox.seen
    ADD CONSTRAINT seen_pkey PRIMARY KEY (sender_id, chunk);

ALTER TABLE ONLY relaybox.sender_counter
    ADD CONSTRAINT sender_counter_pkey PRIMARY KEY (sender);

ALTER TABLE ONLY relaybox.sender
    ADD CONSTRAINT sender_pkey PRIMARY KEY (origin, sender, epoch);

ALTER TABLE ONLY relaybox.sender_role
    ADD CONSTRAINT sender_role_pkey PRIMARY KEY (sender, role_name);

ALTER TABLE ONLY relaybox.sender_state
    ADD CONSTRAINT sender_state_of_an_epoch UNIQUE (stream_id, sender, epoch);

ALTER TABLE ONLY relaybox.sender_state
    ADD CONSTRAINT sender_state_pkey PRIMARY KEY (sender_id);

ALTER TABLE ONLY relaybox.skip
    ADD CONSTRAINT skip_pkey PRIMARY KEY (skip_id);

ALTER TABLE ONLY relaybox.store
    ADD CONSTRAINT store_pkey PRIMARY KEY (only_row);

ALTER TABLE ONLY relaybox.stream
    ADD CONSTRAINT stream_is_known_once UNIQUE (stream);

ALTER TABLE ONLY relaybox.stream_log
    ADD CONSTRAINT stream_log_pkey PRIMARY KEY (hop_id);

ALTER TABLE ONLY relaybox.stream
    ADD CONSTRAINT stream_pkey PRIMARY KEY (stream_id);

ALTER TABLE ONLY relaybox.stream_topic
    ADD CONSTRAINT stream_topic_pkey PRIMARY KEY (stream_id, topic);

ALTER TABLE ONLY relaybox.subscription
    ADD CONSTRAINT subscription_pkey PRIMARY KEY (subscription_id);

CREATE UNIQUE INDEX arrival_last_position ON relaybox.arrival USING btree (hop_id, last_position);

CREATE UNIQUE INDEX batch_last_position ON relaybox.batch USING btree (hop, last_position);

CREATE UNIQUE INDEX dead_letter_of_a_stream ON relaybox.dead_letter USING btree (hop_id, "position") WHERE (subscription_id IS NULL);

CREATE UNIQUE INDEX dead_letter_of_a_subscription ON relaybox.dead_letter USING btree (subscription_id, place);

CREATE INDEX dead_letter_stream ON relaybox.dead_letter USING btree (stream_id);

CREATE INDEX dead_letter_unsettled ON relaybox.dead_letter USING btree (subscription_id, lane, place) WHERE (state = ANY (ARRAY['open'::text, 'redriving'::text]));

CREATE INDEX decision_decided_at ON relaybox.decision USING btree (hop_id, decided_at);

CREATE INDEX decision_last_place ON relaybox.decision USING btree (hop_id, last_place);

CREATE INDEX held_sender ON relaybox.held USING btree (sender_id, index);

CREATE INDEX outbox_message_id ON ONLY relaybox.outbox USING btree (message_id);

CREATE INDEX outbox_overflow_message_id_idx ON relaybox.outbox_overflow USING btree (message_id);

CREATE INDEX outbox_xid ON ONLY relaybox.outbox USING btree (xid);

CREATE INDEX outbox_overflow_xid_idx ON relaybox.outbox_overflow USING btree (xid);

CREATE INDEX outbox_s000000_message_id_idx ON relaybox.outbox_s000000 USING btree (message_id);

CREATE INDEX outbox_s000000_xid_idx ON relaybox.outbox_s000000 USING btree (xid);

CREATE INDEX outbox_s000001_message_id_idx ON relaybox.outbox_s000001 USING btree (message_id);

CREATE INDEX outbox_s000001_xid_idx ON relaybox.outbox_s000001 USING btree (xid);

CREATE INDEX outbox_s000002_message_id_idx ON relaybox.outbox_s000002 USING btree (message_id);

CREATE INDEX outbox_s000002_xid_idx ON relaybox.outbox_s000002 USING btree (xid);

CREATE INDEX outbox_s000003_message_id_idx ON relaybox.outbox_s000003 USING btree (message_id);

CREATE INDEX outbox_s000003_xid_idx ON relaybox.outbox_s000003 USING btree (xid);

CREATE INDEX outbox_s000004_message_id_idx ON relaybox.outbox_s000004 USING btree (message_id);

CREATE INDEX outbox_s000004_xid_idx ON relaybox.outbox_s000004 USING btree (xid);

CREATE INDEX replay_range_of_a_cursor ON relaybox.replay_range USING btree (subscription_id, replay_range_id);

CREATE INDEX sender_state_stalled ON relaybox.sender_state USING btree (stream_id) WHERE (stalled_after IS NOT NULL);

CREATE INDEX sender_xid ON relaybox.sender USING btree (xid);

CREATE INDEX stream_log_stream ON relaybox.stream_log USING btree (stream_id);

CREATE UNIQUE INDEX subscribed_once ON relaybox.subscription USING btree (subscription) WHERE (ended_at IS NULL);

ALTER INDEX relaybox.log_pkey ATTACH PARTITION relaybox.log_1_pkey;

ALTER INDEX relaybox.log_1_pkey ATTACH PARTITION relaybox.log_1_s000000_pkey;

ALTER INDEX relaybox.log_1_pkey ATTACH PARTITION relaybox.log_1_s000001_pkey;

ALTER INDEX relaybox.log_1_pkey ATTACH PARTITION relaybox.log_1_s000002_pkey;

ALTER INDEX relaybox.log_1_pkey ATTACH PARTITION relaybox.log_1_s000003_pkey;

ALTER INDEX relaybox.log_1_pkey ATTACH PARTITION relaybox.log_1_s000004_pkey;

ALTER INDEX relaybox.outbox_message_id ATTACH PARTITION relaybox.outbox_overflow_message_id_idx;

ALTER INDEX relaybox.outbox_pkey ATTACH PARTITION relaybox.outbox_overflow_pkey;

ALTER INDEX relaybox.outbox_xid ATTACH PARTITION relaybox.outbox_overflow_xid_idx;

ALTER INDEX relaybox.outbox_message_id ATTACH PARTITION relaybox.outbox_s000000_message_id_idx;

ALTER INDEX relaybox.outbox_pkey ATTACH PARTITION relaybox.outbox_s000000_pkey;

ALTER INDEX relaybox.outbox_xid ATTACH PARTITION relaybox.outbox_s000000_xid_idx;

ALTER INDEX relaybox.outbox_message_id ATTACH PARTITION relaybox.outbox_s000001_message_id_idx;

ALTER INDEX relaybox.outbox_pkey ATTACH PARTITION relaybox.outbox_s000001_pkey;

ALTER INDEX relaybox.outbox_xid ATTACH PARTITION relaybox.outbox_s000001_xid_idx;

ALTER INDEX relaybox.outbox_message_id ATTACH PARTITION relaybox.outbox_s000002_message_id_idx;

ALTER INDEX relaybox.outbox_pkey ATTACH PARTITION relaybox.outbox_s000002_pkey;

ALTER INDEX relaybox.outbox_xid ATTACH PARTITION relaybox.outbox_s000002_xid_idx;

ALTER INDEX relaybox.outbox_message_id ATTACH PARTITION relaybox.outbox_s000003_message_id_idx;

ALTER INDEX relaybox.outbox_pkey ATTACH PARTITION relaybox.outbox_s000003_pkey;

ALTER INDEX relaybox.outbox_xid ATTACH PARTITION relaybox.outbox_s000003_xid_idx;

ALTER INDEX relaybox.outbox_message_id ATTACH PARTITION relaybox.outbox_s000004_message_id_idx;

ALTER INDEX relaybox.outbox_pkey ATTACH PARTITION relaybox.outbox_s000004_pkey;

ALTER INDEX relaybox.outbox_xid ATTACH PARTITION relaybox.outbox_s000004_xid_idx;

ALTER TABLE ONLY relaybox.arrival
    ADD CONSTRAINT arrival_of_a_hop FOREIGN KEY (hop_id) REFERENCES relaybox.hop_in(hop_id);

ALTER TABLE ONLY relaybox.batch
    ADD CONSTRAINT batch_of_a_hop FOREIGN KEY (hop) REFERENCES relaybox.hop_out(hop);

ALTER TABLE ONLY relaybox.dead_letter
    ADD CONSTRAINT dead_letter_hop_id_fkey FOREIGN KEY (hop_id) REFERENCES relaybox.hop_in(hop_id);

ALTER TABLE ONLY relaybox.dead_letter
    ADD CONSTRAINT dead_letter_stream_id_fkey FOREIGN KEY (stream_id) REFERENCES relaybox.stream(stream_id);

ALTER TABLE ONLY relaybox.dead_letter
    ADD CONSTRAINT dead_letter_subscription_id_fkey FOREIGN KEY (subscription_id) REFERENCES relaybox.subscription(subscription_id);

ALTER TABLE ONLY relaybox.decision
    ADD CONSTRAINT decision_hop_id_fkey FOREIGN KEY (hop_id) REFERENCES relaybox.hop_in(hop_id);

ALTER TABLE ONLY relaybox.delivery
    ADD CONSTRAINT delivery_stream_id_fkey FOREIGN KEY (stream_id) REFERENCES relaybox.stream(stream_id);

ALTER TABLE ONLY relaybox.detached_segment
    ADD CONSTRAINT detached_segment_hop_id_fkey FOREIGN KEY (hop_id) REFERENCES relaybox.hop_in(hop_id);

ALTER TABLE ONLY relaybox.failed_attempt
    ADD CONSTRAINT failed_attempt_subscription_id_fkey FOREIGN KEY (subscription_id) REFERENCES relaybox.subscription(subscription_id);

ALTER TABLE ONLY relaybox.generation
    ADD CONSTRAINT generation_of_a_hop FOREIGN KEY (hop) REFERENCES relaybox.hop_out(hop);

ALTER TABLE ONLY relaybox.ghost
    ADD CONSTRAINT ghost_of_a_generation FOREIGN KEY (hop, generation) REFERENCES relaybox.generation(hop, generation);

ALTER TABLE ONLY relaybox.held
    ADD CONSTRAINT held_hop_id_fkey FOREIGN KEY (hop_id) REFERENCES relaybox.hop_in(hop_id);

ALTER TABLE ONLY relaybox.held
    ADD CONSTRAINT held_sender_id_fkey FOREIGN KEY (sender_id) REFERENCES relaybox.sender_state(sender_id);

ALTER TABLE ONLY relaybox.held
    ADD CONSTRAINT held_stream_id_fkey FOREIGN KEY (stream_id) REFERENCES relaybox.stream(stream_id);

ALTER TABLE ONLY relaybox.index_range
    ADD CONSTRAINT index_range_sender_id_fkey FOREIGN KEY (sender_id) REFERENCES relaybox.sender_state(sender_id);

ALTER TABLE ONLY relaybox.lane
    ADD CONSTRAINT lane_subscription_id_fkey FOREIGN KEY (subscription_id) REFERENCES relaybox.subscription(subscription_id);

ALTER TABLE ONLY relaybox.hop_out
    ADD CONSTRAINT reads_log_of_a_hop_that_arrives_here FOREIGN KEY (reads_log) REFERENCES relaybox.hop_in(hop_id);

ALTER TABLE ONLY relaybox.receipt
    ADD CONSTRAINT receipt_of_a_hop FOREIGN KEY (hop_id) REFERENCES relaybox.hop_in(hop_id);

ALTER TABLE ONLY relaybox.replay_range
    ADD CONSTRAINT replay_range_subscription_id_fkey FOREIGN KEY (subscription_id) REFERENCES relaybox.subscription(subscription_id);

ALTER TABLE ONLY relaybox.seen
    ADD CONSTRAINT seen_sender_id_fkey FOREIGN KEY (sender_id) REFERENCES relaybox.sender_state(sender_id);

ALTER TABLE ONLY relaybox.sender_state
    ADD CONSTRAINT sender_state_stream_id_fkey FOREIGN KEY (stream_id) REFERENCES relaybox.stream(stream_id);

ALTER TABLE ONLY relaybox.skip
    ADD CONSTRAINT skip_stream_id_fkey FOREIGN KEY (stream_id) REFERENCES relaybox.stream(stream_id);

ALTER TABLE ONLY relaybox.stream_log
    ADD CONSTRAINT stream_log_hop_id_fkey FOREIGN KEY (hop_id) REFERENCES relaybox.hop_in(hop_id);

ALTER TABLE ONLY relaybox.stream_log
    ADD CONSTRAINT stream_log_stream_id_fkey FOREIGN KEY (stream_id) REFERENCES relaybox.stream(stream_id);

ALTER TABLE ONLY relaybox.stream_topic
    ADD CONSTRAINT stream_topic_stream_id_fkey FOREIGN KEY (stream_id) REFERENCES relaybox.stream(stream_id) ON DELETE CASCADE;

ALTER TABLE ONLY relaybox.subscription
    ADD CONSTRAINT subscription_replay_of_fkey FOREIGN KEY (replay_of) REFERENCES relaybox.subscription(subscription_id);

ALTER TABLE ONLY relaybox.subscription
    ADD CONSTRAINT subscription_stream_id_fkey FOREIGN KEY (stream_id) REFERENCES relaybox.stream(stream_id);

GRANT USAGE ON SCHEMA relaybox TO relaybox_producer;
GRANT USAGE ON SCHEMA relaybox TO relaybox_consumer;

REVOKE ALL ON FUNCTION relaybox.accept_slice(log_id integer, generation_ integer, batch_ bigint, slice_ integer, plan_id_ uuid, row_count_ bigint, attempt_ bigint, digest_ text, first_position bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.ack(subscription text, place bigint, lane integer, worker text) FROM PUBLIC;
GRANT ALL ON FUNCTION relaybox.ack(subscription text, place bigint, lane integer, worker text) TO relaybox_consumer;

REVOKE ALL ON FUNCTION relaybox.acknowledged(c relaybox.cursor, known relaybox.subscription, place_ bigint, worker_ text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.add_topics(hop_name text, topics_ text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.adopted_content(hop_name text, positions bigint[], message_ids uuid[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.append_run(here relaybox.stream, log_id integer, first_position_ bigint, last_position_ bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.ask_replay(subscription text, cursor_name text, start text, through text, reason text, asked_by text, rows_per_second integer, OUT state text, OUT replay bigint, OUT first_place bigint, OUT last_place bigint, OUT message_count bigint, OUT byte_count bigint, OUT estimated_seconds double precision, OUT waits_for text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.attempts_at(known relaybox.subscription, place_ bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.batch_slices(slices jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.begin_attach(log_id integer, recorded_by text, OUT made relaybox.detached_segment, OUT staging text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.begin_attempt(hop_name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.begin_detach(log_id integer, recorded_by text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.begin_generation(log_id integer, generation_ integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.bind_sender(sender_ text, role_name_ name) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.bind_senders(asked boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.cancel_replay(subscription text, reason text) FROM PUBLIC;
GRANT ALL ON FUNCTION relaybox.cancel_replay(subscription text, reason text) TO relaybox_consumer;

REVOKE ALL ON FUNCTION relaybox.check_stream(stream_name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.clock_entries(clock jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.clock_is_valid(clock jsonb, sender_ text, epoch_ integer, index_ bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.cluster_fingerprint(OUT system_identifier bigint, OUT timeline integer, OUT next_xid xid8) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.compact_hop_ledgers(hop_name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.compact_log_ledgers(log_id integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.confirm_processed(hop_name text, through_position_ bigint, happened_at_ timestamp with time zone, recorded_by_ text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.confirm_received(hop_name text, batch_ bigint, plan_id_ uuid, happened_at_ timestamp with time zone, recorded_by_ text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.confirm_settled(hop_name text, through_position_ bigint, happened_at_ timestamp with time zone, recorded_by_ text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.confirmation_of(hop_name text, state_ text, position_ bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.confirmations_after(hop_name text, received_after bigint, processed_after bigint, settled_after bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.count_quarters(log_id integer, first_position bigint, last_position bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.count_senders(log_id integer, first_position bigint, last_position bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.cursor_at(c relaybox.cursor, place_ bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.declare_sender(sender text, kind text) FROM PUBLIC;
GRANT ALL ON FUNCTION relaybox.declare_sender(sender text, kind text) TO relaybox_producer;

REVOKE ALL ON FUNCTION relaybox.deliver_held(here relaybox.stream, input relaybox.stream_log) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.deliver_next(log_id integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.detachable_segments(log_id integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.doubled_messages(log_id integer, through_position bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.drop_dead_letter(letter bigint, reason text) FROM PUBLIC;
GRANT ALL ON FUNCTION relaybox.drop_dead_letter(letter bigint, reason text) TO relaybox_consumer;

REVOKE ALL ON FUNCTION relaybox.drop_oldest_segment(log_id integer, recorded_by text, detach_first bigint, detach_attempt integer, OUT outcome text, OUT segment text, OUT holder text, OUT bytes bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.durable_arrival(log_id integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.end_older_attempts(hop_name text, batch_ bigint, slice_ integer, attempt_ bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.end_resending(hop_name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.ensure_log_segments(log_id integer, through_position bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.ensure_outbox_segments(ahead_count integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.estimate_range(known relaybox.subscription, first_place bigint, last_place bigint, OUT message_count bigint, OUT byte_count bigint, OUT read_seconds double precision) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.every_transaction() FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.fence_lanes(log_id integer, through_position bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox."fetch"(subscription text, max_count integer, acked_place bigint, acked_lane integer, only_lane integer, worker text) FROM PUBLIC;
GRANT ALL ON FUNCTION relaybox."fetch"(subscription text, max_count integer, acked_place bigint, acked_lane integer, only_lane integer, worker text) TO relaybox_consumer;

REVOKE ALL ON FUNCTION relaybox.fetched_again(c relaybox.cursor, known relaybox.subscription, worker_ text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.find_originals(from_position bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.find_repeated_ids(log_id integer, first_position bigint, last_position bigint, within bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.finish_attach(log_id integer, first_ bigint, attempt_ integer, recorded_by text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.first_kept_read(hop_name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.first_position_after(stream_id_ integer, log_id integer, place_ bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.has_sender_to_take_up(stream_ integer, origin_ text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.held_senders(stream_name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.hold_back(known relaybox.subscription, lane_ integer, after_place bigint, bound_place bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.holders(log_id integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.holds_unknown_causes(here relaybox.stream) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.hop_has_work(hop_name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.hop_is_driven(hop_name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.hops_fingerprint(log_id integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.index_to_wait_for(skipped int8multirange, index bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.is_fetched(c relaybox.cursor, known relaybox.subscription, place_ bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.is_skipped(sender_id_ integer, first_index bigint, before_index bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.judge_batch(here relaybox.stream, input relaybox.stream_log, batch_ bigint, first_position bigint, last_position bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.judge_batch_senders(here relaybox.stream, input relaybox.stream_log) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.judge_clocks(here relaybox.stream) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.judge_duplicates(first_position bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.judge_rows(here relaybox.stream, input relaybox.stream_log, first_position bigint, last_position bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.lag(subscription text) FROM PUBLIC;
GRANT ALL ON FUNCTION relaybox.lag(subscription text) TO relaybox_consumer;

REVOKE ALL ON FUNCTION relaybox.lane_of(lane_by text, lanes integer, sender text, key text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.lanes_for(known relaybox.subscription, worker_ text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.last_place_through(stream_id_ integer, log_id integer, through_position bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.lock_hop(hop_name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.lock_lane(known relaybox.subscription, lane_ integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.log_digest(table_ regclass, first bigint, last bigint, OUT row_count bigint, OUT hash_sum numeric) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.log_holders(log_id integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.log_kept_from(log_id integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.make_delivery_tables() FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.make_published_sender() FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.message_at(stream_id_ integer, place_ bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.message_hash(message_id uuid, topic text, sender text, epoch integer, index bigint, key text, payload text, payload_bytes bytea, headers jsonb, clock jsonb, sent_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.move_cursor(moved relaybox.cursor) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.nack(subscription text, place bigint, reason text, lane integer, worker text) FROM PUBLIC;
GRANT ALL ON FUNCTION relaybox.nack(subscription text, place bigint, reason text, lane integer, worker text) TO relaybox_consumer;

REVOKE ALL ON FUNCTION relaybox.new_epoch(sender text, kind text) FROM PUBLIC;
GRANT ALL ON FUNCTION relaybox.new_epoch(sender text, kind text) TO relaybox_producer;

REVOKE ALL ON FUNCTION relaybox.new_message_id() FROM PUBLIC;
GRANT ALL ON FUNCTION relaybox.new_message_id() TO relaybox_producer;

REVOKE ALL ON FUNCTION relaybox.newest_confirmation(hop_name text, state_ text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.next_fetch(c relaybox.cursor, known relaybox.subscription, max_count bigint, worker_ text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.next_index(sender text) FROM PUBLIC;
GRANT ALL ON FUNCTION relaybox.next_index(sender text) TO relaybox_producer;

REVOKE ALL ON FUNCTION relaybox.open_lanes(id integer, lanes integer, first_place bigint, replay_place bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.open_replay(known relaybox.subscription, name text, first_place_ bigint, last_place_ bigint, rows_per_second_ integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.outbox_buckets(lower_ pg_snapshot, upper_ pg_snapshot, topics_ text[], bucket_seqs bigint, after_seq bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.outbox_buckets_after(lower_ pg_snapshot, upper_ pg_snapshot, topics_ text[], bucket_seqs bigint, after_seq bigint, pair_last_seq bigint, max_rows bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.outbox_covered() FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.outbox_holders() FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.outbox_waiting(hop_name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.place_messages(here relaybox.stream, log_id integer, first_position bigint, last_position bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.places_between(stream_id_ integer, start text, through text, OUT first_place bigint, OUT last_place bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.processed_reading(hop_name text, subscriptions text[], OUT through_position bigint, OUT happened_at timestamp with time zone, OUT missing text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.publish_batch(log_id integer, generation_ integer, batch_ bigint, plan_id_ uuid, first_position_ bigint, last_position_ bigint, slice_count_ integer, source_system_identifier_ bigint, source_timeline_ integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.rank_by_clocks() FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.read_dense_slice(first_seq bigint, last_seq bigint, first_position bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.read_log(hop_name text, after_position bigint, max_count integer) FROM PUBLIC;
GRANT ALL ON FUNCTION relaybox.read_log(hop_name text, after_position bigint, max_count integer) TO relaybox_consumer;

REVOKE ALL ON FUNCTION relaybox.read_log_slice(log_id integer, first_read bigint, last_read bigint, first_position bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.read_outbox_slice(lower_ pg_snapshot, upper_ pg_snapshot, topics_ text[], first_seq bigint, last_seq bigint, first_position bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.read_stream(stream_name text, after_place bigint, max_count integer) FROM PUBLIC;
GRANT ALL ON FUNCTION relaybox.read_stream(stream_name text, after_place bigint, max_count integer) TO relaybox_consumer;

REVOKE ALL ON FUNCTION relaybox.receiving_state(hop_name text, confirmed_batch bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.record_action(subscription_name text, action_ text, reason_ text, detail_ jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.record_attempt(hop_name text, batch_ bigint, attempt_ bigint, recorded_by_ text, application_ text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.record_batch(hop_name text, lower_ pg_snapshot, upper_ pg_snapshot, pair_last_seq_ bigint, pair_exhausted_ boolean, reads_after_ bigint, reads_through_ bigint, row_count_ bigint, slices_ jsonb, digests_ text[], system_identifier_ bigint, timeline_ integer, next_xid_ xid8) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.record_downstream(hop_name text, state_ text, through_position_ bigint, through_batch_ bigint, happened_at_ timestamp with time zone, recorded_by_ text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.redrive(subscription text, reason text, letter bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION relaybox.redrive(subscription text, reason text, letter bigint) TO relaybox_consumer;

REVOKE ALL ON FUNCTION relaybox.refuse_detached(known relaybox.stream, place_ bigint, who text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.refuse_letter_of_stream(letter bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.refuse_other_plan(log_id integer, batch_ bigint, plan_here uuid, plan_offered uuid) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.refuse_retired_hop(known relaybox.hop_out) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.register_hop_in(hop_name text, source_ text, OUT log_id integer, OUT registered boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.register_hop_out(hop_name text, destination_ text, upstream text, topics_ text[], policy_ text, processed_by_ text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.register_stream(hop_name text, stream_name text, origin_ text, order_ text, message_id_window_ bigint, holdback_rows_ bigint, fragments_ bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.register_topics(stream_name text, topics text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.release(subscription text, lane integer, worker text) FROM PUBLIC;
GRANT ALL ON FUNCTION relaybox.release(subscription text, lane integer, worker text) TO relaybox_consumer;

REVOKE ALL ON FUNCTION relaybox.release_detached(log_id integer, recorded_by text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.remember_indexes() FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.remember_senders(log_id integer, seen pg_snapshot, senders jsonb, taken_ bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.replay(subscription text, start text, reason text, through text, own_cursor boolean, rows_per_second integer, dry_run boolean, OUT replayed_as text, OUT first_place bigint, OUT last_place bigint, OUT message_count bigint, OUT byte_count bigint, OUT estimated_seconds double precision) FROM PUBLIC;
GRANT ALL ON FUNCTION relaybox.replay(subscription text, start text, reason text, through text, own_cursor boolean, rows_per_second integer, dry_run boolean, OUT replayed_as text, OUT first_place bigint, OUT last_place bigint, OUT message_count bigint, OUT byte_count bigint, OUT estimated_seconds double precision) TO relaybox_consumer;

REVOKE ALL ON FUNCTION relaybox.replay_progress(replay_ bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.replayed_through(cursor_id integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.require_fetched(c relaybox.cursor, known relaybox.subscription, place_ bigint, worker_ text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.require_reason(reason text, said text, hint_ text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.require_sender_kind(sender_ text, kind_ text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.require_sender_role(sender_ text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.require_writable_primary() FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.resolved_position(log_id integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.restore_cursor(subscription text, lane_ integer, done_place_ bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.retire_hop(hop_name text, reason text, recorded_by text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.scan_lane(known relaybox.subscription, lane_ integer, after_place bigint, bound_place bigint, max_count bigint, OUT through_place bigint, OUT row_count bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.segments() FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.sender_epoch(sender text) FROM PUBLIC;
GRANT ALL ON FUNCTION relaybox.sender_epoch(sender text) TO relaybox_producer;

REVOKE ALL ON FUNCTION relaybox.sender_gap(stream_name text, sender_ text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.senders_since(origin_ text, seen pg_snapshot, OUT through pg_snapshot, OUT senders jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.sending_state(hop_name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.set_aside(c relaybox.cursor, known relaybox.subscription, place_ bigint, reason_ text, detail_ text, attempts_ integer, worker_ text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.set_aside_circles() FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.set_aside_judged(here relaybox.stream) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.set_aside_places(known relaybox.subscription, after_place bigint, bound_place bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.settle_senders(here relaybox.stream, log_id integer, first_position_ bigint, last_position_ bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.settled_reading(hop_name text, OUT through_position bigint, OUT happened_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.signals() FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.skip_empty_pair(hop_name text, upper_ pg_snapshot) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.skip_gap(stream_name text, sender_ text, last_index_ bigint, reason_ text, skipped_by_ text, OUT epoch integer, OUT first_index bigint, OUT last_index bigint, OUT released bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.slice_content(reads_log integer, lower_ pg_snapshot, upper_ pg_snapshot, topics_ text[], first_read bigint, last_read bigint, first_position bigint, through_position bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.slice_digest(reads_log integer, lower_ pg_snapshot, upper_ pg_snapshot, topics_ text[], first_read bigint, last_read bigint, first_position bigint, through_position bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.slice_digests(reads_log integer, lower_ pg_snapshot, upper_ pg_snapshot, topics_ text[], slices jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.slice_state(log_id integer, batch_ bigint, slice_ integer, plan_id_ uuid) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.start_place(stream_id_ integer, start text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.stream_digests(stream_name text, first_place bigint, through_place bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.stream_has_work(log_id integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.stream_places(stream_id_ integer, through_place bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.stream_state(hop_name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.subscribe(subscription text, source text, start text, lanes integer, lane_by text, nack_limit integer, crash_limit integer, hold_sender boolean, retry_seconds integer, lease_seconds integer) FROM PUBLIC;
GRANT ALL ON FUNCTION relaybox.subscribe(subscription text, source text, start text, lanes integer, lane_by text, nack_limit integer, crash_limit integer, hold_sender boolean, retry_seconds integer, lease_seconds integer) TO relaybox_consumer;

REVOKE ALL ON FUNCTION relaybox.subscription_named(name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.succession(hop_name text, arrived_batch bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.take_lane(known relaybox.subscription, max_count integer, acked_place bigint, acked_lane integer, only_lane integer, worker_ text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.take_up_stalled(here relaybox.stream, input relaybox.stream_log, before_position bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.topics_wanted(hop_name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.trace_arrival(hop_name text, batch_ bigint, slice_ integer, position_ bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.trace_delivery(hop_name text, position_ bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.trace_reading(hop_name text, reads bigint, OUT state text, OUT batch bigint, OUT slice integer, OUT "position" bigint, OUT planned_at timestamp with time zone, OUT received_at timestamp with time zone, OUT received_by text, OUT processed_at timestamp with time zone, OUT processed_by text, OUT settled_at timestamp with time zone, OUT settled_by text, OUT moved_by text, OUT application text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.trace_sent(message_id_ uuid) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.unbatched_messages(hop_name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.unbind_sender(sender_ text, role_name_ name) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.undelivered_buckets(undelivered int8multirange, topics_ text[], bucket_seqs bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.undelivered_messages(hop_name text, common_batch bigint, through_seq bigint, OUT seqs int8multirange, OUT message_count bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.unmet_causes(stream_id_ integer, log_id integer, position_ bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.unrouted_seq(through_seq bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.unrouted_topics(newest bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.unsubscribe(subscription text, reason text) FROM PUBLIC;
GRANT ALL ON FUNCTION relaybox.unsubscribe(subscription text, reason text) TO relaybox_consumer;

REVOKE ALL ON FUNCTION relaybox.waits_at_once() FROM PUBLIC;

REVOKE ALL ON FUNCTION relaybox.worker_name(given text) FROM PUBLIC;

GRANT SELECT ON TABLE relaybox.consumer_action TO relaybox_consumer;

GRANT SELECT ON TABLE relaybox.dead_letters TO relaybox_consumer;

GRANT SELECT ON TABLE relaybox.inbox TO relaybox_consumer;

GRANT USAGE ON SEQUENCE relaybox.outbox_seq TO relaybox_producer;

GRANT SELECT(message_id),INSERT(message_id) ON TABLE relaybox.outbox TO relaybox_producer;

GRANT INSERT(index) ON TABLE relaybox.outbox TO relaybox_producer;

GRANT INSERT(epoch) ON TABLE relaybox.outbox TO relaybox_producer;

GRANT INSERT(topic) ON TABLE relaybox.outbox TO relaybox_producer;

GRANT INSERT(sender) ON TABLE relaybox.outbox TO relaybox_producer;

GRANT INSERT(key) ON TABLE relaybox.outbox TO relaybox_producer;

GRANT INSERT(headers) ON TABLE relaybox.outbox TO relaybox_producer;

GRANT INSERT(payload) ON TABLE relaybox.outbox TO relaybox_producer;

GRANT INSERT(payload_bytes) ON TABLE relaybox.outbox TO relaybox_producer;

GRANT INSERT(clock) ON TABLE relaybox.outbox TO relaybox_producer;

GRANT SELECT ON TABLE relaybox.sender_role TO relaybox_producer;

GRANT SELECT ON TABLE relaybox.subscriptions TO relaybox_consumer;
