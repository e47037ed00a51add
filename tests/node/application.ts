// What the tests of docs/examples/relaybox.ts run. Its arguments: what to do, and the subscription.
import { Pool } from "pg";
import { consume, inTransaction, put } from "./relaybox";

const pool = new Pool({ max: 3 });
const [what, subscription = "billing"] = process.argv.slice(2);
const stop = new AbortController();
process.on("SIGTERM", () => stop.abort());

async function send(): Promise<void> {
  const id = await inTransaction(pool, async (store) => {
    await put(store, { topic: "flights", sender: "UA", payload: { number: "UA 231" }, key: "231", headers: { trace: 7 } });
    await put(store, { topic: "flights", sender: "UA", payload: "text" });
    return put(store, { topic: "flights", sender: "UA", payload: Buffer.from([0, 255]) });
  });
  await inTransaction(pool, async (store) => {
    await put(store, { topic: "flights", sender: "UA", payload: "rolled back" });
    throw new Error("taken back");
  }).catch((error: Error) => console.log(error.message));
  console.log(id);
}

async function work(untilEmpty: boolean): Promise<void> {
  await consume(
    pool,
    subscription,
    async (store, message) => {
      if (message.payload === "refused") throw new Error("no such flight");
      await store.query("insert into public.effect (stream_position, payload) values ($1, $2)", [
        (message.streamPosition + 0n).toString(),
        message.payload ?? message.payloadBytes?.toString("hex"),
      ]);
      console.log(`${message.streamPosition + 1n}`); // a number, no text
    },
    {
      untilEmpty,
      maxCount: 4,
      signal: stop.signal,
      onRefused: (message, error, isDeadLetter) => console.log(`refused ${message.streamPosition}: ${(error as Error).message} ${isDeadLetter}`),
    },
  );
  console.log("ended");
}

(what === "send" ? send() : work(what === "drain"))
  .then(() => pool.end())
  .catch((error) => {
    console.error(error);
    process.exit(1);
  });
