-- Made by `make schema` from a fresh store; a test keeps it current. Functions are in sql/functions.

CREATE SCHEMA relaybox;

CREATE TABLE relaybox.cursor (
    subscription_id integer NOT NULL,
    lane integer NOT NULL,
    version bigint NOT NULL,
    done_place bigint NOT NULL,
    fetched_place bigint NOT NULL,
    redrive_place bigint,
    fetch_count integer DEFAULT 0 NOT NULL,
    suspect_place bigint DEFAULT 0 NOT NULL,
    suspect_rows integer,
    worker text,
    leased_until timestamp with time zone,
    wait_until timestamp with time zone,
    replay_place bigint DEFAULT 0 NOT NULL,
    rate_from timestamp with time zone,
    moved_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    token text,
    fetched_in xid8,
    first_fetched_at timestamp with time zone,
    CONSTRAINT a_lease_has_a_worker CHECK (((worker IS NULL) = (leased_until IS NULL))),
    CONSTRAINT done_is_not_beyond_fetched CHECK ((fetched_place >= done_place))
);

CREATE TABLE relaybox.subscription (
    subscription_id integer NOT NULL,
    subscription text NOT NULL,
    stream_id integer NOT NULL,
    topic text,
    lanes integer DEFAULT 1 NOT NULL,
    lane_by text DEFAULT 'sender'::text NOT NULL,
    lane_hash bigint DEFAULT hashtextextended('relaybox'::text, (0)::bigint) NOT NULL,
    first_place bigint NOT NULL,
    through_place bigint,
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
    CONSTRAINT a_replay_ends CHECK (((replay_of IS NULL) = (through_place IS NULL))),
    CONSTRAINT lane_by_is_known CHECK ((lane_by = ANY (ARRAY['sender'::text, 'key'::text]))),
    CONSTRAINT lanes_1_to_64 CHECK (((lanes >= 1) AND (lanes <= 64))),
    CONSTRAINT subscription_is_a_plain_name CHECK ((subscription ~ '^[a-z0-9_.-]{1,60}$'::text)),
    CONSTRAINT subscription_limits_positive CHECK (((first_place >= 1) AND (nack_limit >= 1) AND (crash_limit >= 1) AND (retry_seconds >= 0) AND (lease_seconds >= 1) AND (rows_per_second >= 1)))
);

CREATE TABLE relaybox.stream (
    stream_id integer NOT NULL,
    stream text NOT NULL,
    delivery_order text NOT NULL,
    message_id_window bigint DEFAULT 0 NOT NULL,
    holdback_rows bigint DEFAULT 10000 NOT NULL,
    fragments bigint DEFAULT 1000000 NOT NULL,
    taken bigint DEFAULT 0 NOT NULL,
    last_place bigint DEFAULT 0 NOT NULL,
    recheck boolean DEFAULT false NOT NULL,
    registered_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    first_kept_place bigint DEFAULT 1 NOT NULL,
    topics_by_subscription boolean DEFAULT false NOT NULL,
    dropped_place bigint DEFAULT 0 NOT NULL,
    rules_pending boolean DEFAULT false NOT NULL,
    CONSTRAINT delivery_order_is_known CHECK ((delivery_order = ANY (ARRAY['none'::text, 'fifo'::text, 'causal'::text, 'total'::text]))),
    CONSTRAINT dropped_place_is_not_kept CHECK ((dropped_place < first_kept_place)),
    CONSTRAINT first_kept_place_positive CHECK ((first_kept_place >= 1)),
    CONSTRAINT stream_limits_positive CHECK (((message_id_window >= 0) AND (holdback_rows >= 1) AND (fragments >= 1)))
);

CREATE TABLE relaybox.detached_segment (
    hop_id integer NOT NULL,
    first bigint NOT NULL,
    last bigint NOT NULL,
    segment text NOT NULL,
    state text DEFAULT 'detaching'::text NOT NULL,
    attempt integer DEFAULT 1 NOT NULL,
    directory text NOT NULL,
    strays text[] DEFAULT '{}'::text[] NOT NULL,
    row_count bigint NOT NULL,
    hash_sum numeric NOT NULL,
    for_whom text[] NOT NULL,
    begun_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    begun_by text NOT NULL,
    moved_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    moved_by text NOT NULL,
    removed_at timestamp with time zone,
    CONSTRAINT detached_segment_not_empty CHECK (((last > first) AND (row_count > 0))),
    CONSTRAINT detached_state_is_known CHECK ((state = ANY (ARRAY['detaching'::text, 'detached'::text, 'attached'::text, 'released'::text]))),
    CONSTRAINT needed_files_are_not_removed CHECK (((removed_at IS NULL) OR (state = ANY (ARRAY['attached'::text, 'released'::text]))))
);

CREATE TABLE relaybox.stream_log (
    hop_id integer NOT NULL,
    stream_id integer NOT NULL,
    origin text NOT NULL,
    decided_batch bigint DEFAULT 0 NOT NULL,
    decided_position bigint DEFAULT 0 NOT NULL,
    senders_seen pg_snapshot,
    compacted_duplicates bigint DEFAULT 0 NOT NULL,
    compacted_decided_at timestamp with time zone,
    compacted_place bigint
);

CREATE TABLE relaybox.decision (
    hop_id integer NOT NULL,
    batch bigint NOT NULL,
    first_taken bigint NOT NULL,
    row_count bigint NOT NULL,
    duplicate_count bigint NOT NULL,
    set_aside_count bigint NOT NULL,
    delivered_count bigint NOT NULL,
    held_after bigint NOT NULL,
    last_place bigint NOT NULL,
    duplicates bigint[],
    in_order boolean NOT NULL,
    decided_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    resolved_position bigint
);

CREATE TABLE relaybox.arrival (
    hop_id integer NOT NULL,
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
    CONSTRAINT arrival_positions_dense CHECK ((((last_position - first_position) + 1) = row_count))
);

CREATE TABLE relaybox.hop_in (
    hop_id integer NOT NULL,
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
    CONSTRAINT detach_says_when_and_where CHECK (((stopped_consumer <> 'detach'::text) OR ((detach_after_seconds IS NOT NULL) AND (detach_to IS NOT NULL)))),
    CONSTRAINT first_kept_position_positive CHECK ((first_kept_position >= 1)),
    CONSTRAINT published_never_negative CHECK (((published_batch >= 0) AND (published_position >= 0))),
    CONSTRAINT replay_window_never_negative CHECK ((replay_window_seconds >= 0)),
    CONSTRAINT stopped_consumer_is_known CHECK ((stopped_consumer = ANY (ARRAY['keep'::text, 'alarm'::text, 'detach'::text])))
);

CREATE TABLE relaybox.batch (
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

CREATE TABLE relaybox.hop_out (
    hop text NOT NULL,
    destination text NOT NULL,
    reads_log integer,
    topics text[],
    policy text NOT NULL,
    batch bigint DEFAULT 0 NOT NULL,
    "position" bigint DEFAULT 0 NOT NULL,
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
    CONSTRAINT only_a_log_is_read_ahead CHECK (((reads_log IS NOT NULL) OR (read_ahead = '{}'::int8multirange))),
    CONSTRAINT outbox_hop_names_its_topics CHECK (((reads_log IS NULL) = ((cardinality(topics) > 0) AND (topics IS NOT NULL)))),
    CONSTRAINT planned_never_negative CHECK (((batch >= 0) AND ("position" >= 0))),
    CONSTRAINT policy_is_known CHECK ((policy = ANY (ARRAY['received'::text, 'cascade'::text, 'processed'::text]))),
    CONSTRAINT processed_by_somebody CHECK (((processed_by IS NULL) OR ((policy = 'processed'::text) AND (cardinality(processed_by) > 0)))),
    CONSTRAINT reads_outbox_or_log CHECK (((reads_log IS NULL) = (lower IS NOT NULL))),
    CONSTRAINT replay_window_never_negative CHECK ((replay_window_seconds >= 0)),
    CONSTRAINT retired_by_somebody CHECK ((((retired_at IS NULL) = (retired_by IS NULL)) AND ((retired_at IS NULL) = (retired_reason IS NULL)))),
    CONSTRAINT stopped_consumer_is_known CHECK ((stopped_consumer = ANY (ARRAY['keep'::text, 'alarm'::text])))
);

CREATE TABLE relaybox.attempt (
    hop text NOT NULL,
    batch bigint NOT NULL,
    attempt bigint NOT NULL,
    recorded_by text NOT NULL,
    application text,
    began_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

CREATE TABLE relaybox.attestation (
    attested_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    attested_by text NOT NULL,
    reason text NOT NULL,
    from_system_identifier bigint NOT NULL,
    from_timeline integer NOT NULL,
    system_identifier bigint NOT NULL,
    timeline integer NOT NULL
);

CREATE TABLE relaybox.backlog (
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

ALTER TABLE relaybox.backlog ALTER COLUMN backlog_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME relaybox.backlog_backlog_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE relaybox.confirmation (
    hop text NOT NULL,
    state text NOT NULL,
    through_position bigint NOT NULL,
    through_batch bigint NOT NULL,
    happened_at timestamp with time zone NOT NULL,
    recorded_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    recorded_by text NOT NULL,
    CONSTRAINT state_is_known CHECK ((state = ANY (ARRAY['received'::text, 'processed'::text, 'settled'::text])))
);

CREATE TABLE relaybox.consumer_action (
    action_id bigint NOT NULL,
    subscription text NOT NULL,
    action text NOT NULL,
    detail jsonb NOT NULL,
    reason text,
    done_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    done_by text DEFAULT SESSION_USER NOT NULL,
    CONSTRAINT action_is_known CHECK ((action = ANY (ARRAY['subscribe'::text, 'unsubscribe'::text, 'replay'::text, 'cancel_replay'::text, 'redrive'::text, 'drop'::text, 'fetch_one_at_a_time'::text])))
);

ALTER TABLE relaybox.consumer_action ALTER COLUMN action_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME relaybox.consumer_action_action_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE relaybox.consumer_quota (
    role_name name NOT NULL,
    subscriptions integer,
    lanes integer,
    checked_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    topics integer,
    CONSTRAINT quota_not_negative CHECK (((subscriptions >= 0) AND (lanes >= 0))),
    CONSTRAINT topics_not_negative CHECK ((topics >= 0))
);

CREATE TABLE relaybox.dead_letter (
    stream_id integer NOT NULL,
    hop_id integer NOT NULL,
    "position" bigint NOT NULL,
    reason text NOT NULL,
    detail text,
    first_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    dead_letter_id bigint NOT NULL,
    subscription_id integer,
    lane integer,
    place bigint,
    sender text,
    attempts integer DEFAULT 1 NOT NULL,
    last_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    last_by text DEFAULT SESSION_USER NOT NULL,
    state text DEFAULT 'open'::text NOT NULL,
    settled_at timestamp with time zone,
    settled_by text,
    settled_reason text,
    acknowledged_before boolean DEFAULT false NOT NULL,
    given_ahead boolean DEFAULT false NOT NULL,
    CONSTRAINT dead_letter_of_a_lane CHECK ((num_nulls(subscription_id, lane, place, sender) = ANY (ARRAY[0, 4]))),
    CONSTRAINT state_is_known CHECK ((state = ANY (ARRAY['open'::text, 'redriving'::text, 'redriven'::text, 'dropped'::text])))
);

ALTER TABLE relaybox.dead_letter ALTER COLUMN dead_letter_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME relaybox.dead_letter_dead_letter_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE relaybox.log (
    hop_id integer NOT NULL,
    epoch integer NOT NULL,
    "position" bigint NOT NULL,
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
PARTITION BY LIST (hop_id);

CREATE VIEW relaybox.dead_letters WITH (security_barrier='true') AS
 SELECT d.dead_letter_id AS letter,
    d.state,
    s.stream,
    n.subscription,
    d.lane,
    d.place,
    d.reason,
    d.detail,
    d.attempts,
    d.first_at,
    d.last_at,
    d.last_by,
    d.settled_at,
    d.settled_by,
    d.settled_reason,
    i.hop,
    d."position",
    l.message_id,
    l.topic,
    l.sender,
    l.epoch,
    l.index,
    l.key,
    l.payload,
    l.payload_bytes,
    l.headers,
    l.sent_at
   FROM ((((relaybox.dead_letter d
     JOIN relaybox.stream s ON ((s.stream_id = d.stream_id)))
     JOIN relaybox.hop_in i ON ((i.hop_id = d.hop_id)))
     LEFT JOIN relaybox.subscription n ON ((n.subscription_id = d.subscription_id)))
     LEFT JOIN relaybox.log l ON (((l.hop_id = d.hop_id) AND (l."position" = d."position"))));

CREATE TABLE relaybox.delivery (
    stream_id integer NOT NULL,
    first_place bigint NOT NULL,
    last_place bigint NOT NULL,
    hop_id integer NOT NULL,
    first_position bigint NOT NULL,
    positions bigint[],
    delivered_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT delivery_names_each_position CHECK (((positions IS NULL) OR (cardinality(positions) = ((last_place - first_place) + 1)))),
    CONSTRAINT delivery_not_empty CHECK (((first_place >= 1) AND (last_place >= first_place)))
);

CREATE TABLE relaybox.dropped_segment (
    dropped_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    segment text NOT NULL,
    hop text,
    first bigint NOT NULL,
    last bigint NOT NULL,
    bytes bigint NOT NULL,
    dropped_by text NOT NULL,
    account jsonb
);

CREATE TABLE relaybox.failed_attempt (
    subscription_id integer NOT NULL,
    lane integer NOT NULL,
    place bigint NOT NULL,
    attempts integer NOT NULL,
    first_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    last_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    last_by text NOT NULL,
    reason text NOT NULL
);

CREATE TABLE relaybox.generation (
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

CREATE TABLE relaybox.ghost (
    hop text NOT NULL,
    "position" bigint NOT NULL,
    generation integer NOT NULL,
    message_id uuid NOT NULL,
    sender text NOT NULL,
    topic text NOT NULL,
    sent_at timestamp with time zone NOT NULL
);

CREATE TABLE relaybox.held (
    hop_id integer NOT NULL,
    "position" bigint NOT NULL,
    stream_id integer NOT NULL,
    sender_id integer NOT NULL,
    index bigint NOT NULL,
    taken bigint NOT NULL,
    held_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

ALTER TABLE relaybox.hop_in ALTER COLUMN hop_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME relaybox.hop_in_hop_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE VIEW relaybox.inbox WITH (security_barrier='true') AS
 SELECT i.hop,
    l."position",
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
   FROM (relaybox.hop_in i
     JOIN relaybox.log l ON (((l.hop_id = i.hop_id) AND (l."position" <= i.published_position))));

CREATE TABLE relaybox.index_range (
    sender_id integer NOT NULL,
    first_index bigint NOT NULL,
    last_index bigint NOT NULL,
    first_position bigint NOT NULL,
    last_position bigint NOT NULL
);

CREATE TABLE relaybox.installed_object (
    identity text NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    digest text NOT NULL,
    installed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT kind_of_object_is_known CHECK ((kind = ANY (ARRAY['function'::text, 'view'::text])))
);

CREATE TABLE relaybox.stream_topic (
    stream_id integer NOT NULL,
    topic text NOT NULL,
    carried_by text DEFAULT 'file'::text NOT NULL,
    CONSTRAINT carried_by_is_known CHECK ((carried_by = ANY (ARRAY['file'::text, 'subscription'::text, 'nobody'::text])))
);

CREATE TABLE relaybox.topic_request (
    stream_id integer NOT NULL,
    topic text NOT NULL,
    requested_by text NOT NULL,
    requested_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

CREATE VIEW relaybox.known_topics AS
 WITH requested AS (
         SELECT DISTINCT topic_request.stream_id,
            topic_request.topic
           FROM relaybox.topic_request
        )
 SELECT t.stream_id,
    t.topic,
        CASE
            WHEN ((t.carried_by = 'nobody'::text) AND (r.topic IS NOT NULL)) THEN 'subscription'::text
            ELSE t.carried_by
        END AS carried_by
   FROM (relaybox.stream_topic t
     LEFT JOIN requested r ON (((r.stream_id = t.stream_id) AND (r.topic = t.topic))))
UNION ALL
 SELECT r.stream_id,
    r.topic,
    'subscription'::text AS carried_by
   FROM (requested r
     LEFT JOIN relaybox.stream_topic t ON (((t.stream_id = r.stream_id) AND (t.topic = r.topic))))
  WHERE (t.topic IS NULL);

CREATE TABLE relaybox.lane (
    subscription_id integer NOT NULL,
    lane integer NOT NULL
);

CREATE VIEW relaybox.lane_cursors AS
 SELECT l.subscription_id,
    l.lane,
    newest.version,
    newest.done_place,
    newest.fetched_place,
    newest.redrive_place,
    newest.fetch_count,
    newest.suspect_place,
    newest.suspect_rows,
    newest.worker,
    newest.leased_until,
    newest.wait_until,
    newest.replay_place,
    newest.rate_from,
    newest.moved_at,
    newest.token,
    newest.fetched_in,
    newest.first_fetched_at
   FROM (relaybox.lane l
     CROSS JOIN LATERAL ( SELECT c.subscription_id,
            c.lane,
            c.version,
            c.done_place,
            c.fetched_place,
            c.redrive_place,
            c.fetch_count,
            c.suspect_place,
            c.suspect_rows,
            c.worker,
            c.leased_until,
            c.wait_until,
            c.replay_place,
            c.rate_from,
            c.moved_at,
            c.token,
            c.fetched_in,
            c.first_fetched_at
           FROM relaybox.cursor c
          WHERE ((c.subscription_id = l.subscription_id) AND (c.lane = l.lane))
          ORDER BY c.version DESC
         LIMIT 1) newest);

CREATE TABLE relaybox.late_delivery (
    stream_id integer NOT NULL,
    delivered_at timestamp with time zone NOT NULL,
    after_place bigint NOT NULL
);

CREATE TABLE relaybox.migration (
    number integer NOT NULL,
    name text NOT NULL,
    applied_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

CREATE TABLE relaybox.numbering (
    only_row boolean DEFAULT true NOT NULL,
    numbering integer DEFAULT 1 NOT NULL,
    xid xid8 DEFAULT pg_current_xact_id() NOT NULL,
    CONSTRAINT numbering_has_one_row CHECK (only_row)
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
    CONSTRAINT clock_names_at_most_1000_senders CHECK ((jsonb_array_length(jsonb_path_query_array(clock, '$.keyvalue()'::jsonpath, '{}'::jsonb, true)) <= 1000)),
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
    CONSTRAINT clock_names_at_most_1000_senders CHECK ((jsonb_array_length(jsonb_path_query_array(clock, '$.keyvalue()'::jsonpath, '{}'::jsonb, true)) <= 1000)),
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

ALTER TABLE relaybox.replay_range ALTER COLUMN replay_range_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME relaybox.replay_range_replay_range_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE VIEW relaybox.replay_ranges WITH (security_barrier='true') AS
 SELECT r.replay_range_id AS replay,
    parent.subscription,
    n.subscription AS replayed_as,
    r.first_place,
    r.last_place,
    r.asked_by,
    r.reason,
    r.begun_at,
    n.ended_at,
    COALESCE(r.done_at, newest.done_at) AS done_at
   FROM (((relaybox.replay_range r
     JOIN relaybox.subscription n ON ((n.subscription_id = r.subscription_id)))
     JOIN relaybox.subscription parent ON ((parent.subscription_id = n.replay_of)))
     LEFT JOIN LATERAL ( SELECT max(c.moved_at) AS done_at
           FROM relaybox.lane_cursors c
          WHERE ((c.subscription_id = r.subscription_id) AND (r.done_at IS NULL))
         HAVING (min(c.done_place) >= r.last_place)) newest ON (true));

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
    grants_digest text,
    initialised_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    first_kept_seq bigint DEFAULT 1 NOT NULL,
    anchor_seq bigint DEFAULT 0 NOT NULL,
    system_identifier bigint,
    timeline integer,
    subscriptions_per_role integer DEFAULT 100 NOT NULL,
    lanes_per_role integer DEFAULT 1000 NOT NULL,
    topics_per_role integer DEFAULT 100 NOT NULL,
    CONSTRAINT first_kept_seq_positive CHECK ((first_kept_seq >= 1)),
    CONSTRAINT quotas_not_negative CHECK (((subscriptions_per_role >= 0) AND (lanes_per_role >= 0))),
    CONSTRAINT segment_rows_positive CHECK ((segment_rows > 0)),
    CONSTRAINT store_has_one_row CHECK (only_row),
    CONSTRAINT topics_per_role_not_negative CHECK ((topics_per_role >= 0))
);

ALTER TABLE relaybox.stream ALTER COLUMN stream_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME relaybox.stream_stream_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
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
    c.lane_places,
    c.replaying,
    c.leased_lanes,
    c.moved_at,
    GREATEST(c.done_place, LEAST(n.through_place, s.last_place)) AS last_place,
    GREATEST((0)::bigint, (LEAST(n.through_place, s.last_place) - c.done_place)) AS places_behind,
    GREATEST((0)::bigint, (LEAST(n.through_place, (s.first_kept_place - 1)) - GREATEST(c.done_place, s.dropped_place))) AS detached_places,
    ( SELECT count(*) AS count
           FROM relaybox.dead_letter d
          WHERE ((d.subscription_id = n.subscription_id) AND (d.state = ANY (ARRAY['open'::text, 'redriving'::text])))) AS dead_letters,
    ARRAY( SELECT d.place
           FROM relaybox.dead_letter d
          WHERE ((d.subscription_id = n.subscription_id) AND (d.state = ANY (ARRAY['open'::text, 'redriving'::text])))
          ORDER BY d.place) AS dead_letter_places
   FROM (((relaybox.subscription n
     JOIN relaybox.stream s ON ((s.stream_id = n.stream_id)))
     LEFT JOIN relaybox.subscription parent ON ((parent.subscription_id = n.replay_of)))
     JOIN LATERAL ( SELECT min(k.done_place) AS done_place,
            bool_or((k.done_place < k.replay_place)) AS replaying,
            max(k.moved_at) AS moved_at,
            count(*) FILTER (WHERE (k.leased_until > clock_timestamp())) AS leased_lanes,
            array_agg(k.done_place ORDER BY k.lane) AS lane_places
           FROM relaybox.lane_cursors k
          WHERE (k.subscription_id = n.subscription_id)) c ON (true))
  WHERE (n.ended_at IS NULL);

ALTER TABLE ONLY relaybox.outbox ATTACH PARTITION relaybox.outbox_overflow DEFAULT;

ALTER TABLE ONLY relaybox.arrival
    ADD CONSTRAINT arrival_pkey PRIMARY KEY (hop_id, batch);

ALTER TABLE ONLY relaybox.attempt
    ADD CONSTRAINT attempt_pkey PRIMARY KEY (hop, batch, attempt);

ALTER TABLE ONLY relaybox.attestation
    ADD CONSTRAINT attestation_pkey PRIMARY KEY (attested_at);

ALTER TABLE ONLY relaybox.backlog
    ADD CONSTRAINT backlog_pkey PRIMARY KEY (hop, backlog_id);

ALTER TABLE ONLY relaybox.batch
    ADD CONSTRAINT batch_pkey PRIMARY KEY (hop, batch);

ALTER TABLE ONLY relaybox.confirmation
    ADD CONSTRAINT confirmation_pkey PRIMARY KEY (hop, state, through_position);

ALTER TABLE ONLY relaybox.consumer_action
    ADD CONSTRAINT consumer_action_pkey PRIMARY KEY (action_id);

ALTER TABLE ONLY relaybox.consumer_quota
    ADD CONSTRAINT consumer_quota_pkey PRIMARY KEY (role_name);

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

ALTER TABLE ONLY relaybox.installed_object
    ADD CONSTRAINT installed_object_pkey PRIMARY KEY (identity);

ALTER TABLE ONLY relaybox.lane
    ADD CONSTRAINT lane_pkey PRIMARY KEY (subscription_id, lane);

ALTER TABLE ONLY relaybox.late_delivery
    ADD CONSTRAINT late_delivery_pkey PRIMARY KEY (stream_id, delivered_at, after_place);

ALTER TABLE ONLY relaybox.log
    ADD CONSTRAINT log_pkey PRIMARY KEY (hop_id, "position");

ALTER TABLE ONLY relaybox.migration
    ADD CONSTRAINT migration_pkey PRIMARY KEY (number);

ALTER TABLE ONLY relaybox.numbering
    ADD CONSTRAINT numbering_pkey PRIMARY KEY (only_row);

ALTER TABLE ONLY relaybox.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (seq);

ALTER TABLE ONLY relaybox.outbox_overflow
    ADD CONSTRAINT outbox_overflow_pkey PRIMARY KEY (seq);

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

ALTER TABLE ONLY relaybox.topic_request
    ADD CONSTRAINT topic_request_pkey PRIMARY KEY (stream_id, topic, requested_by);

CREATE UNIQUE INDEX arrival_last_position ON relaybox.arrival USING btree (hop_id, last_position);

CREATE UNIQUE INDEX batch_last_position ON relaybox.batch USING btree (hop, last_position);

CREATE INDEX batch_topics ON relaybox.batch USING btree (hop, hash_array_extended(topics, (0)::bigint));

CREATE UNIQUE INDEX dead_letter_of_a_stream ON relaybox.dead_letter USING btree (hop_id, "position") WHERE (subscription_id IS NULL);

CREATE UNIQUE INDEX dead_letter_of_a_subscription ON relaybox.dead_letter USING btree (subscription_id, place);

CREATE INDEX dead_letter_stream ON relaybox.dead_letter USING btree (stream_id);

CREATE INDEX dead_letter_unsettled ON relaybox.dead_letter USING btree (subscription_id, lane, place) WHERE (state = ANY (ARRAY['open'::text, 'redriving'::text]));

CREATE INDEX decision_decided_at ON relaybox.decision USING btree (hop_id, decided_at, last_place);

CREATE INDEX decision_last_place ON relaybox.decision USING btree (hop_id, last_place);

CREATE INDEX held_sender ON relaybox.held USING btree (sender_id, index);

CREATE INDEX outbox_message_id ON ONLY relaybox.outbox USING btree (message_id);

CREATE INDEX outbox_overflow_message_id_idx ON relaybox.outbox_overflow USING btree (message_id);

CREATE INDEX outbox_xid ON ONLY relaybox.outbox USING btree (xid);

CREATE INDEX outbox_overflow_xid_idx ON relaybox.outbox_overflow USING btree (xid);

CREATE INDEX replay_range_of_a_cursor ON relaybox.replay_range USING btree (subscription_id, replay_range_id);

CREATE INDEX sender_state_stalled ON relaybox.sender_state USING btree (stream_id) WHERE (stalled_after IS NOT NULL);

CREATE INDEX sender_xid ON relaybox.sender USING btree (xid);

CREATE INDEX stream_log_stream ON relaybox.stream_log USING btree (stream_id);

CREATE UNIQUE INDEX subscribed_once ON relaybox.subscription USING btree (subscription) WHERE (ended_at IS NULL);

CREATE INDEX subscription_of_role ON relaybox.subscription USING btree (subscribed_by) INCLUDE (lanes) WHERE (ended_at IS NULL);

CREATE INDEX topic_request_requested_by ON relaybox.topic_request USING btree (requested_by);

ALTER INDEX relaybox.outbox_message_id ATTACH PARTITION relaybox.outbox_overflow_message_id_idx;

ALTER INDEX relaybox.outbox_pkey ATTACH PARTITION relaybox.outbox_overflow_pkey;

ALTER INDEX relaybox.outbox_xid ATTACH PARTITION relaybox.outbox_overflow_xid_idx;

ALTER TABLE ONLY relaybox.arrival
    ADD CONSTRAINT arrival_of_a_hop FOREIGN KEY (hop_id) REFERENCES relaybox.hop_in(hop_id);

ALTER TABLE ONLY relaybox.backlog
    ADD CONSTRAINT backlog_of_a_hop FOREIGN KEY (hop) REFERENCES relaybox.hop_out(hop);

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

ALTER TABLE ONLY relaybox.late_delivery
    ADD CONSTRAINT late_delivery_stream_id_fkey FOREIGN KEY (stream_id) REFERENCES relaybox.stream(stream_id) ON DELETE CASCADE;

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

ALTER TABLE ONLY relaybox.topic_request
    ADD CONSTRAINT topic_request_stream_id_fkey FOREIGN KEY (stream_id) REFERENCES relaybox.stream(stream_id) ON DELETE CASCADE;
