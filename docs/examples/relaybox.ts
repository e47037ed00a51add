// Relaybox for Node with TypeScript, above the package pg: copy this file into your application.
//   npm install pg; npm install --save-dev typescript @types/pg @types/node
//
//   import { Pool } from "pg";
//   import { consume, put } from "./relaybox";
//   await inTransaction(pool, (store) => put(store, { topic: "flights", sender: "UA", payload: { number: "UA 231" } }));
//   await consume(pool, "billing", async (store, message) => { await store.query("insert into invoice ...", [...]); }, { signal });
//
// Work on the store through `store` exists exactly once. Work elsewhere happens at least once: deduplicate by message.messageId.
import { randomUUID } from "node:crypto";
import type { Pool, PoolClient } from "pg";

export interface NewMessage {
  topic: string;
  sender: string;
  payload: string | Uint8Array | object; // an object is sent as JSON
  key?: string;
  headers?: Record<string, unknown>;
  messageId?: string; // repeat a transaction with the same id if the answer to its commit was lost
}

export interface Message {
  streamPosition: bigint; // pg gives a bigint as text, of which "3" + 1 is "31"
  token: string;
  attempt: number;
  replayed: boolean;
  messageId: string;
  topic: string;
  sender: string;
  epoch: number;
  index: bigint;
  key: string | null;
  headers: Record<string, unknown> | null;
  payload: string | null; // or payloadBytes
  payloadBytes: Buffer | null;
  sentAt: Date;
}

export type Handler = (store: PoolClient, message: Message) => Promise<void>;

export interface ConsumeOptions {
  worker?: string; // one for each process, the same after a restart
  maxCount?: number; // messages of one fetch
  signal?: AbortSignal; // ends the loop after its message
  untilEmpty?: boolean; // ends instead of waiting
  onRefused?: (message: Message, error: unknown, isDeadLetter: boolean) => void;
}

/** Sends a message in the transaction of the caller, which decides whether it exists. Returns its id. */
export async function put(store: PoolClient, message: NewMessage): Promise<string> {
  const { payload } = message;
  const isBytes = payload instanceof Uint8Array;
  const text = isBytes ? null : typeof payload === "string" ? payload : JSON.stringify(payload);
  const { rows } = await store.query(
    `insert into relaybox.outbox (message_id, topic, sender, key, headers, payload, payload_bytes)
     values ($1, $2, $3, $4, $5::jsonb, $6, $7) returning message_id`,
    [
      message.messageId ?? randomUUID(),
      message.topic,
      message.sender,
      message.key ?? null,
      message.headers === undefined ? null : JSON.stringify(message.headers),
      text,
      isBytes ? Buffer.from(payload) : null,
    ],
  );
  return rows[0].message_id;
}

/** Runs work in a transaction of its own: commits, or rolls back and throws what the work threw. */
export async function inTransaction<Answer>(pool: Pool, work: (store: PoolClient) => Promise<Answer>): Promise<Answer> {
  const store = await pool.connect();
  try {
    await store.query("begin");
    const answer = await work(store);
    await store.query("commit");
    store.release();
    return answer;
  } catch (error) {
    await store.query("rollback").then(
      () => store.release(),
      () => store.release(true), // a broken session does not go back to the pool
    );
    throw error;
  }
}

/** Handles each message in a transaction with its acknowledgement, until the signal is given. A message whose handler throws is refused. */
export async function consume(pool: Pool, subscription: string, handle: Handler, options: ConsumeOptions = {}): Promise<void> {
  const { worker = `node ${randomUUID()}`, maxCount = 100, signal, untilEmpty = false, onRefused } = options;
  while (!signal?.aborted) {
    const messages = await fetch(pool, subscription, maxCount, worker);
    if (messages.length === 0) {
      if (untilEmpty) return;
      await wait(pool, subscription, signal);
    }
    for (const message of messages) {
      if (signal?.aborted) {
        await release(pool, subscription, message.token);
        return;
      }
      if (!(await handleOne(pool, subscription, message, handle, onRefused))) break; // the rest comes with the next fetch
    }
  }
}

async function fetch(pool: Pool, subscription: string, maxCount: number, worker: string): Promise<Message[]> {
  // a transaction of its own: a message that kills the process is counted, and set aside after crash_limit
  const { rows } = await pool.query("select * from relaybox.fetch($1, $2, worker => $3)", [subscription, maxCount, worker]);
  return rows.map((row) => ({
    streamPosition: BigInt(row.stream_position),
    token: row.token,
    attempt: row.attempt,
    replayed: row.replayed,
    messageId: row.message_id,
    topic: row.topic,
    sender: row.sender,
    epoch: row.epoch,
    index: BigInt(row.index),
    key: row.key,
    headers: row.headers,
    payload: row.payload,
    payloadBytes: row.payload_bytes,
    sentAt: row.sent_at,
  }));
}

/** Whether the message is acknowledged. The lease is extended while the handler runs, from another session. */
async function handleOne(
  pool: Pool,
  subscription: string,
  message: Message,
  handle: Handler,
  onRefused: ConsumeOptions["onRefused"],
): Promise<boolean> {
  const extending = setInterval(() => {
    // an error tells that another worker has the messages: then the acknowledgement fails, and the work is rolled back
    pool.query("select relaybox.extend_lease($1, $2)", [subscription, message.token]).catch(() => undefined);
  }, 20_000); // of the default lease of 60 seconds
  try {
    await inTransaction(pool, async (store) => {
      await handle(store, message);
      // by the token, so from whichever session of the pool
      await store.query("select relaybox.ack($1, $2, $3)", [subscription, message.streamPosition.toString(), message.token]);
    });
    return true;
  } catch (error) {
    const code = (error as { code?: string }).code ?? "";
    const isLost = code === "RB035" || code.startsWith("08") || code.startsWith("57") || code.startsWith("40") || code.startsWith("E");
    if (isLost) return false; // no fault of the message: it comes again
    const reason = String(error instanceof Error ? (error.stack ?? error.message) : error);
    const { rows } = await pool.query("select relaybox.nack($1, $2, $3, $4) as is_dead_letter", [
      subscription,
      message.streamPosition.toString(),
      reason,
      message.token,
    ]);
    onRefused?.(message, error, rows[0].is_dead_letter);
    return false;
  } finally {
    clearInterval(extending);
  }
}

async function release(pool: Pool, subscription: string, token: string): Promise<void> {
  await pool.query("select relaybox.release($1, $2)", [subscription, token]);
}

/** Waits for a notification, at most as long as the store says. Behind a pooler nothing is heard, and the time ends the wait. */
async function wait(pool: Pool, subscription: string, signal: AbortSignal | undefined): Promise<void> {
  const listener = await pool.connect();
  let wake: () => void = () => undefined;
  try {
    const notified = new Promise<void>((resolve) => {
      wake = resolve;
    });
    listener.on("notification", wake);
    listener.on("error", wake);
    signal?.addEventListener("abort", wake);
    await listener.query("select relaybox.listen($1)", [subscription]);
    // after listening: what came meanwhile makes this 1 second at most
    const { rows } = await listener.query("select relaybox.rest_seconds($1) as seconds", [subscription]);
    const timer = setTimeout(wake, 1000 * rows[0].seconds);
    if (!signal?.aborted) await notified;
    clearTimeout(timer);
  } finally {
    signal?.removeEventListener("abort", wake);
    listener.release(true); // a session that listens does not go back to the pool
  }
}
