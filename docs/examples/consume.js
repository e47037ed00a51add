// A consumer in Node without any code of Relaybox, with the package pg:
//   npm install pg
//   PGHOST=... PGDATABASE=... PGUSER=... PGPASSWORD=... node consume.js SUBSCRIPTION STREAM [REPLAY_FROM]
// One transaction: a message that kills the process is fetched again and again (docs/runbooks/killed-workers.md).
// The package pg gives a bigint as text, so that no digit is lost: '3' + 1 is '31'. Give it back as it came, or count with BigInt.
// Subscribes if need be, reads again from a stream position if asked to, and consumes until nothing comes: each message's effect exists once.
const { Client } = require("pg");

const [subscription, stream, replayFrom] = process.argv.slice(2);
if (!stream) {
  console.error("node consume.js SUBSCRIPTION STREAM [REPLAY_FROM]");
  process.exit(2);
}
const worker = "node-1"; // of your choosing: one per worker, the same after a restart

async function consume(store) {
  await store.query("begin");
  const { rows } = await store.query(
    "select stream_position, token, replayed, sender, payload from relaybox.fetch($1, 4, worker => $2)",
    [subscription, worker],
  );
  for (const message of rows) {
    await store.query("insert into public.effect (stream_position, payload) values ($1, $2)", [message.stream_position, message.payload]);
  }
  if (rows.length > 0) {
    const { stream_position, token } = rows.at(-1);
    await store.query("select relaybox.ack($1, $2, $3)", [subscription, stream_position, token]);
  }
  await store.query("commit"); // work and acknowledgement together
  return rows;
}

async function main() {
  const store = new Client();
  await store.connect();
  try {
    await store.query("select relaybox.subscribe($1, $2)", [subscription, stream]);
  } catch (error) {
    if (error.code !== "RB030") throw error; // already subscribed: it goes on where it was
  }
  if (replayFrom) {
    await store.query("select relaybox.replay($1, $2, 'asked for on the command line')", [subscription, replayFrom]);
  }
  for (let rows = await consume(store); rows.length > 0; rows = await consume(store)) {
    console.log(rows.map((message) => `${message.stream_position}${message.replayed ? " again" : ""}: ${message.payload}`).join("\n"));
  }
  await store.end();
}

main().catch((error) => {
  console.error(`${error.code}: ${error.message}.${error.hint ? ` ${error.hint}` : ""}`);
  process.exit(1);
});
