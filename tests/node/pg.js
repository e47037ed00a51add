// Stands in for the npm package pg, which the lock file can't pin: the part of its interface that docs/examples/consume.js uses,
// over the real wire protocol (version 3, SCRAM-SHA-256, extended queries with text parameters).
const { createHash, createHmac, pbkdf2Sync, randomBytes } = require("node:crypto");
const { connect } = require("node:net");

const hmac = (key, text) => createHmac("sha256", key).update(text).digest();
const int32 = (number) => {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(number);
  return bytes;
};
const int16 = (number) => int32(number).subarray(2);
const text = (value) => Buffer.from(`${value}\0`);
const message = (type, ...parts) => {
  const body = Buffer.concat(parts);
  return Buffer.concat([Buffer.from(type), int32(body.length + 4), body]);
};
const PARSERS = { 16: (value) => value === "t", 21: Number, 23: Number, 114: JSON.parse, 3802: JSON.parse }; // int8 stays text, as in pg

class Client {
  constructor() {
    this.received = Buffer.alloc(0);
    this.messages = [];
    this.wake = () => {};
  }

  async connect() {
    const { PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE } = process.env;
    this.socket = connect(Number(PGPORT ?? 5432), PGHOST);
    this.socket.on("data", (bytes) => this.take(bytes));
    this.socket.on("error", (error) => this.take(null, error));
    const startup = Buffer.concat([int32(196608), text("user"), text(PGUSER), text("database"), text(PGDATABASE), Buffer.alloc(1)]);
    this.socket.write(Buffer.concat([int32(startup.length + 4), startup]));
    await this.until((type, body) => type === "R" && this.authenticate(body, PGPASSWORD ?? ""));
  }

  authenticate(body, password) {
    const said = body.subarray(4).toString();
    switch (body.readInt32BE(0)) {
      case 10: {
        this.bare = `n=,r=${randomBytes(18).toString("base64")}`;
        const first = Buffer.from(`n,,${this.bare}`);
        this.socket.write(message("p", text("SCRAM-SHA-256"), int32(first.length), first));
        break;
      }
      case 11: {
        const { r, s, i } = Object.fromEntries(said.split(",").map((part) => [part[0], part.slice(2)]));
        const salted = pbkdf2Sync(password, Buffer.from(s, "base64"), Number(i), 32, "sha256");
        const key = hmac(salted, "Client Key");
        const signed = `${this.bare},${said},c=biws,r=${r}`;
        const signature = hmac(createHash("sha256").update(key).digest(), signed);
        const verification = key.map((byte, stream_position) => byte ^ signature[stream_position]).toString("base64");
        this.expected = `v=${hmac(hmac(salted, "Server Key"), signed).toString("base64")}`;
        this.socket.write(message("p", Buffer.from(`c=biws,r=${r},p=${verification}`)));
        break;
      }
      case 12:
        if (said !== this.expected) throw new Error("the server does not know the password");
    }
  }

  async query(statement, values = []) {
    const parameters = values.flatMap((value) => {
      const bytes = Buffer.from(String(value));
      return [int32(bytes.length), bytes];
    });
    this.socket.write(
      Buffer.concat([
        message("P", text(""), text(statement), int16(0)),
        message("B", text(""), text(""), int16(0), int16(values.length), ...parameters, int16(0)),
        message("D", Buffer.from("P"), text("")),
        message("E", text(""), int32(0)),
        message("S"),
      ]),
    );
    const rows = [];
    let columns = [];
    await this.until((type, body) => {
      if (type === "T") columns = readColumns(body);
      if (type === "D") rows.push(readRow(body, columns));
    });
    return { rows };
  }

  async end() {
    this.socket.end(message("X"));
  }

  /** Hands every message to `use` until the server is ready for the next query; then throws the error that it sent, if any. */
  async until(use) {
    let failed = null;
    for (;;) {
      const [type, body] = await this.next();
      if (type === "Z") break;
      if (type === "E") {
        failed = readError(body);
        if (failed.severity === "FATAL") break;
      }
      use(type, body);
    }
    if (failed) throw failed;
  }

  async next() {
    while (this.messages.length === 0) {
      if (this.broken) throw this.broken;
      await new Promise((resolve) => (this.wake = resolve));
    }
    return this.messages.shift();
  }

  take(bytes, error) {
    this.broken = error;
    this.received = bytes ? Buffer.concat([this.received, bytes]) : this.received;
    while (this.received.length >= 5 && this.received.length > this.received.readInt32BE(1)) {
      const length = this.received.readInt32BE(1) + 1;
      this.messages.push([String.fromCharCode(this.received[0]), this.received.subarray(5, length)]);
      this.received = this.received.subarray(length);
    }
    this.wake();
  }
}

function readColumns(body) {
  const columns = [];
  for (let at = 2, left = body.readInt16BE(0); left > 0; left -= 1) {
    const end = body.indexOf(0, at);
    columns.push({ name: body.subarray(at, end).toString(), parse: PARSERS[body.readInt32BE(end + 7)] ?? ((value) => value) });
    at = end + 19;
  }
  return columns;
}

function readRow(body, columns) {
  let at = 2;
  return Object.fromEntries(
    columns.map(({ name, parse }) => {
      const length = body.readInt32BE(at);
      const value = length < 0 ? null : parse(body.subarray(at + 4, at + 4 + length).toString());
      at += 4 + Math.max(0, length);
      return [name, value];
    }),
  );
}

function readError(body) {
  const fields = Object.fromEntries(body.toString().split("\0").map((field) => [field[0], field.slice(1)]));
  return Object.assign(new Error(fields.M), { code: fields.C, hint: fields.H, severity: fields.V });
}

module.exports = { Client };
