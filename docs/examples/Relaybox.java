// A producer and a consumer in Java, above JDBC: copy what you need. Run as it is:
//   java -cp postgresql.jar Relaybox.java send TOPIC SENDER TEXT...
//   java -cp postgresql.jar Relaybox.java consume SUBSCRIPTION  (or "wait": it does not end)
// Both connect with PGHOST, PGPORT, PGDATABASE, PGUSER and PGPASSWORD.
// Work on the same connection exists exactly once; elsewhere deduplicate by messageId.

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.UUID;
import org.postgresql.PGConnection;

public class Relaybox {
    record Message(long streamPosition, String token, UUID messageId, String topic, String sender, String payload) {}

    interface Handler {
        void handle(Connection store, Message message) throws Exception;
    }

    /** Sends a message in the transaction of the caller, which decides whether it exists. */
    static UUID put(Connection store, String topic, String sender, String payload) throws SQLException {
        String insert = "insert into relaybox.outbox (topic, sender, payload) values (?, ?, ?) returning message_id";
        try (PreparedStatement statement = store.prepareStatement(insert)) {
            statement.setString(1, topic);
            statement.setString(2, sender);
            statement.setString(3, payload);
            try (ResultSet row = statement.executeQuery()) {
                row.next();
                return row.getObject(1, UUID.class);
            }
        }
    }

    /** Handles each message in one transaction with its acknowledgement, until a fetch gives nothing. */
    static void consumeUntilEmpty(Connection store, String subscription, String worker, Handler handler) throws SQLException {
        for (List<Message> messages = fetch(store, subscription, worker); !messages.isEmpty(); messages = fetch(store, subscription, worker)) {
            for (Message message : messages) {
                try {
                    handler.handle(store, message);
                    acknowledge(store, subscription, message);
                    store.commit();
                } catch (Exception error) {
                    store.rollback();
                    if (error instanceof SQLException refusal && isNoFaultOfTheMessage(refusal)) {
                        break; // it comes again
                    }
                    refuse(store, subscription, message, error.toString());
                    store.commit();
                    break; // the rest comes with the next fetch
                }
            }
        }
    }

    /** In a transaction of its own: a message that kills the process is counted, and set aside after crash_limit. */
    static List<Message> fetch(Connection store, String subscription, String worker) throws SQLException {
        List<Message> messages = new ArrayList<>();
        String fetch = "select stream_position, token, message_id, topic, sender, payload from relaybox.fetch(?, 100, worker => ?)";
        try (PreparedStatement statement = store.prepareStatement(fetch)) {
            statement.setString(1, subscription);
            statement.setString(2, worker);
            try (ResultSet row = statement.executeQuery()) {
                while (row.next()) {
                    messages.add(new Message(row.getLong(1), row.getString(2), row.getObject(3, UUID.class), row.getString(4),
                            row.getString(5), row.getString(6)));
                }
            }
        }
        store.commit();
        return messages;
    }

    static void acknowledge(Connection store, String subscription, Message message) throws SQLException {
        try (PreparedStatement statement = store.prepareStatement("select relaybox.ack(?, ?, ?)")) {
            statement.setString(1, subscription);
            statement.setLong(2, message.streamPosition());
            statement.setString(3, message.token());
            statement.execute();
        }
    }

    static void refuse(Connection store, String subscription, Message message, String reason) throws SQLException {
        try (PreparedStatement statement = store.prepareStatement("select relaybox.nack(?, ?, ?, ?)")) {
            statement.setString(1, subscription);
            statement.setLong(2, message.streamPosition());
            statement.setString(3, reason);
            statement.setString(4, message.token());
            statement.execute();
        }
    }

    /** RB035: another worker has the messages. 08, 40, 57: the session or the transaction ended. */
    static boolean isNoFaultOfTheMessage(SQLException error) {
        String state = error.getSQLState() == null ? "08" : error.getSQLState();
        return state.equals("RB035") || state.startsWith("08") || state.startsWith("40") || state.startsWith("57");
    }

    /** Waits for a notification, at most as long as the store says. Call it when nothing came, and fetch again afterwards. */
    static void waitForMessages(Connection store, String subscription) throws SQLException {
        try (PreparedStatement statement = store.prepareStatement("select relaybox.listen(?)")) {
            statement.setString(1, subscription);
            statement.execute(); // again and again: it listens once
        }
        store.commit(); // it listens from here on, so what is delivered before makes the next answer 1 second at most
        double seconds;
        try (PreparedStatement statement = store.prepareStatement("select relaybox.rest_seconds(?)")) {
            statement.setString(1, subscription);
            try (ResultSet row = statement.executeQuery()) {
                row.next();
                seconds = row.getDouble(1);
            }
        }
        store.commit(); // nothing is heard in a transaction
        store.unwrap(PGConnection.class).getNotifications((int) (1000 * seconds) + 1);
    }

    static Connection connect() throws SQLException {
        Properties login = new Properties();
        login.setProperty("user", System.getenv("PGUSER"));
        login.setProperty("password", System.getenv("PGPASSWORD"));
        String at = System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE");
        Connection store = DriverManager.getConnection("jdbc:postgresql://" + at, login);
        store.setAutoCommit(false);
        return store;
    }

    public static void main(String[] arguments) throws Exception {
        try (Connection store = connect()) {
            if (arguments[0].equals("send")) {
                for (int each = 3; each < arguments.length; each++) {
                    System.out.println(put(store, arguments[1], arguments[2], arguments[each]));
                }
                store.commit();
                return;
            }
            Handler handler = (work, message) -> {
                if (message.payload().equals("refused")) {
                    throw new IllegalArgumentException("no such flight");
                }
                try (PreparedStatement effect = work.prepareStatement("insert into public.effect (stream_position, payload) values (?, ?)")) {
                    effect.setLong(1, message.streamPosition());
                    effect.setString(2, message.payload());
                    effect.executeUpdate();
                }
                System.out.println(message.streamPosition() + ": " + message.payload());
            };
            consumeUntilEmpty(store, arguments[1], "java-1", handler);
            while (arguments[0].equals("wait")) {
                waitForMessages(store, arguments[1]);
                consumeUntilEmpty(store, arguments[1], "java-1", handler);
            }
        }
    }
}
