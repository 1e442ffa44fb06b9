// Against a real database: PGHOST, PGPORT, PGUSER, PGDATABASE.

import assert from "node:assert/strict";
import { after, afterEach, beforeEach, test } from "node:test";

import pg from "pg";

import { connect, ExtensionMissing, ModelMissing, NoConnection, NotAllowed, Rag } from "../src/index.js";

const rag = new Rag();
const name = `j${process.pid}`;

async function sql(text: string, database?: string): Promise<pg.QueryResult> {
  const client = new pg.Client(database ? { database } : {});
  await client.connect();
  try {
    return await client.query(text);
  } finally {
    await client.end();
  }
}

beforeEach(() => rag.createCollection(name, 3));
afterEach(() => rag.dropCollection(name));
after(() => rag.close());

const chunk = (id: string, metadata = {}, embedding = [1, 0, 0]) => ({
  id,
  content: `text ${id}`,
  metadata,
  embedding,
});

test("documents", async () => {
  await rag.dropCollection(name);
  await rag.createCollection(name);
  const added = await rag.add(
    [
      { uri: "note:keys", content: "Keys are rotated every 90 days." },
      { uri: "note:none", content: " " },
    ],
    name,
  );
  assert.deepEqual(added.map((a) => a.action), ["added", "failed"]);
  const [hit] = await rag.search("how often are keys replaced?", { collection: name, topK: 1 });
  assert.equal(hit?.uri, "note:keys");
  assert.match(hit?.snippet ?? "", /<mark>Keys<\/mark>/);
  assert.equal((await rag.search("keys", { collection: [name, "default"] }))[0]?.uri, "note:keys");
});

test("ids of any text, nested metadata, filters", async () => {
  const id = "https://example.org/a?b='c'&d=%20#日本";
  const metadata = { nested: { list: [1, null, "ü\0"] }, at: new Date(0), uri: "mine" };
  assert.equal(await rag.upsert([chunk(id, metadata), chunk("b", { n: 2 })], name), 2);
  const [stored] = await rag.get({ ids: [id, "missing"] }, name);
  assert.equal(stored?.id, id);
  assert.deepEqual(stored?.metadata, {
    nested: { list: [1, null, "ü"] },
    at: "1970-01-01T00:00:00.000Z",
    uri: "mine",
  });
  const hits = await rag.search(null, { collection: name, embedding: [1, 0, 0] });
  assert.ok(hits.some((hit) => hit.id === id && hit.score === 1));
  const filter = { key: "n", operator: "in", value: [] };
  assert.equal(await rag.count(filter, name), 0);
  assert.equal(await rag.count(undefined, name), 2);
  assert.equal(await rag.delete({ filter: { n: 2 } }, name), 1);
  assert.equal(await rag.delete({ ids: [id, "missing"] }, name), 1);
  await assert.rejects(rag.delete({}, name), /needs ids or a filter/);
});

test("all or nothing", async () => {
  const many = Array.from({ length: 1500 }, (_, n) => chunk(`${n}`));
  await assert.rejects(rag.upsert([...many, chunk("bad", {}, [1])], name), /dimensions/);
  await assert.rejects(rag.upsert([{ id: "a", content: " " }], name), /chunk "a" has no text/);
  await assert.rejects(rag.upsert([chunk("a", {}, [NaN, 0, 0])], name), /NaN/);
  assert.equal(await rag.count(undefined, name), 0);
  assert.equal(await rag.upsert([...many, chunk("1")], name), 1500);
  assert.equal(await rag.upsert(many, name, false), 0);
});

test("the same id at once", async () => {
  await Promise.all(Array.from({ length: 8 }, () => rag.upsert([chunk("same")], name)));
  assert.equal(await rag.count(undefined, name), 1);
});

test("what is missing, and how to get it", async () => {
  await assert.rejects(connect("postgresql://127.0.0.1:1/x"), NoConnection);
  const database = `d${process.pid}`;
  await sql(`CREATE DATABASE ${database} TEMPLATE template0`);
  await sql(`CREATE ROLE ${database} LOGIN`);
  try {
    await assert.rejects(connect({ database }), (error: Error) => {
      assert.ok(error instanceof ExtensionMissing);
      return /run: CREATE EXTENSION rag/.test(error.message);
    });
    await sql(`CREATE SCHEMA "Other Schema"; CREATE EXTENSION rag SCHEMA "Other Schema"`, database);
    const other = await connect({ database });
    await other.createCollection("c", 3);
    await other.upsert([chunk("a")], "c");
    assert.equal((await other.search(null, { collection: "c", embedding: [1, 0, 0] }))[0]?.id, "a");
    await other.close();
    const stranger = await connect({ user: database });
    await assert.rejects(stranger.search("x"), (error: Error) => {
      assert.ok(error instanceof NotAllowed);
      return error.message.includes(`GRANT rag_reader TO ${database}`);
    });
    await stranger.close();
  } finally {
    await sql(`DROP DATABASE ${database} WITH (FORCE)`);
    await sql(`DROP ROLE ${database}`);
  }
  await rag.dropCollection(name);
  await rag.createCollection(name);
  await rag.add({ uri: "k", content: "Keys." }, name);
  await assert.rejects(rag.answer("keys", { collection: name }), ModelMissing);
});

test("a connection that the server closes", async () => {
  const pool = new pg.Pool({ max: 1 });
  pool.on("error", () => undefined);
  const pooled = new Rag(pool);
  assert.equal(await pooled.count(undefined, name), 0);
  const { rows } = await pool.query("SELECT pg_backend_pid() AS pid");
  await sql(`SELECT pg_terminate_backend(${rows[0].pid}, 5000)`);
  await new Promise((resolve) => setTimeout(resolve, 100));
  assert.equal(await pooled.count(undefined, name), 0);
  await pool.end();
});

const model = process.env["RAG_TEST_CHAT_MODEL"];

test("answers", { skip: model ? false : "RAG_TEST_CHAT_MODEL is not set" }, async () => {
  await rag.dropCollection(name);
  await rag.createCollection(name);
  await rag.add({ uri: "note:keys", content: "Keys are rotated every 90 days." }, name);
  const options = { collection: name, model: model! };
  const answer = await rag.answer("how often?", options);
  assert.equal(answer.context[0]?.["uri"], "note:keys");
  let message = "";
  for await (const piece of rag.stream("how often?", options)) message += piece;
  assert.equal(message, answer.message);
  for await (const _ of rag.stream("how often?", options)) break;
  assert.equal(await rag.count(undefined, name), 1);
});

test("syncs", async () => {
  await assert.rejects(rag.sync("there is none"), /does not exist/);
});
