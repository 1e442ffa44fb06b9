// The client. SQL does the work: values are parameters, and the schema is quoted by the driver.

import pg from "pg";

import { explained, ExtensionMissing, NoConnection, RagError } from "./errors.js";

export * from "./errors.js";

const MINIMUM_SERVER = 150000;
/** The most chunks of one call. */
const BATCH = 1000;

export type Metadata = Record<string, unknown>;
/** A filter of `rag_search`. */
export type Filter = Record<string, unknown>;

/** A chunk that a search has found. A higher score is better, and 1 is the best. */
export interface Hit {
  id: string;
  rank: number;
  score: number;
  content: string;
  uri: string;
  title: string | null;
  metadata: Metadata;
  citation: string;
  collection: string;
  page: number | null;
  startLine: number | null;
  endLine: number | null;
  anchor: string | null;
  /** HTML, in which words of the query are between <mark> and </mark>. */
  snippet: string | null;
}

export interface SearchOptions {
  collection?: string | string[];
  topK?: number;
  mode?: "hybrid" | "vector" | "keyword";
  filter?: Filter;
  rerank?: string;
  /** Settings of a search, as `rag_search` names them. */
  settings?: Record<string, unknown>;
  embedding?: number[];
}

/** A document, which the extension splits and embeds. */
export interface NewDocument {
  uri: string;
  content: string;
  title?: string;
  document_type?: string;
  category?: string;
  tags?: string[];
  metadata?: Metadata;
}

export interface Added {
  uri: string;
  action: "added" | "updated" | "unchanged" | "failed";
  success: boolean;
  error: string | null;
}

/** A stored chunk, or one to store. */
export interface Chunk {
  id: string;
  content: string;
  metadata?: Metadata;
  embedding?: number[];
}

export interface Selection {
  ids?: string[];
  filter?: Filter;
}

export interface AnswerOptions extends Omit<SearchOptions, "collection" | "rerank" | "embedding"> {
  collection?: string;
  model?: string;
  history?: { role: "user" | "assistant" | "system"; content: string }[];
}

export interface Answer {
  message: string;
  context: Record<string, unknown>[];
  model: string | null;
  metadata: Record<string, unknown>;
}

export interface Progress {
  stage: string;
  done: number;
  total: number | null;
  chunks: number;
}

interface Installed {
  schema: string;
  role: string;
}

type Value = string | number | boolean | string[] | null;

// The ids of an application are those of its chunks. They are looked up for documents that an
// application may have split: these are texts, and belong to no source.
const SEARCH = `
  WITH found AS MATERIALIZED (
    SELECT * FROM {rag}.rag_search(
      query => $1::text, collection => $2::text[], top_k => $3::integer, mode => $4::text,
      filter => $5::jsonb, rerank => $6::text, settings => $7::jsonb,
      query_embedding => $8::rag_types.vector)
  ), split AS MATERIALIZED (
    SELECT f.collection, array_agg(f.chunk_id::text) AS ids
    FROM found f WHERE f.source IS NULL AND f.document_type = 'text' GROUP BY f.collection
  ), named AS MATERIALIZED (
    SELECT s.collection, c.chunk_id, c.given_id
    FROM split s, LATERAL {rag}.rag_get_chunks(s.collection, s.ids) AS c
    WHERE c.given_id IS NOT NULL
  )
  SELECT coalesce(n.given_id, f.chunk_id::text) AS id, rank, score, content, uri, title, metadata,
         citation, f.collection, page, start_line AS "startLine", end_line AS "endLine", anchor,
         snippet
  FROM found f LEFT JOIN named n USING (collection, chunk_id) ORDER BY f.rank`;

const json = (value: unknown): string | null =>
  value === undefined || value === null ? null : JSON.stringify(withoutNul(value));

/** PostgreSQL cannot store the character U+0000, which texts of PDFs sometimes have. */
function withoutNul(value: unknown): unknown {
  if (typeof value === "string") return value.replaceAll("\0", "");
  if (typeof value === "number" && !Number.isFinite(value)) {
    throw new RangeError("JSON does not have NaN and infinity; check the model or the metadata");
  }
  if (value instanceof Date) return value.toISOString();
  if (Array.isArray(value)) return value.map(withoutNul);
  if (value !== null && typeof value === "object") {
    return Object.fromEntries(
      Object.entries(value).map(([key, inner]) => [key.replaceAll("\0", ""), withoutNul(inner)]),
    );
  }
  return value;
}

/** A database with the extension `rag`. */
export class Rag {
  readonly #pool: pg.Pool;
  readonly #isOwn: boolean;
  #installed: Promise<Installed> | undefined;

  /**
   * @param connection a connection string, or a pool of `pg`; without one, the variables of libpq
   *   count (PGHOST, PGDATABASE, PGUSER ...)
   */
  constructor(connection?: string | pg.PoolConfig | pg.Pool) {
    this.#isOwn = !(connection instanceof pg.Pool);
    if (connection instanceof pg.Pool) {
      this.#pool = connection;
    } else {
      const config = typeof connection === "string" ? { connectionString: connection } : connection;
      this.#pool = new pg.Pool(config);
      // an idle connection that the server closes is replaced
      this.#pool.on("error", () => undefined);
    }
  }

  /** Ends the connections, unless the pool was given. */
  async close(): Promise<void> {
    if (this.#isOwn) await this.#pool.end();
  }

  async #find(): Promise<Installed> {
    const { rows } = await this.#pool.query(
      `SELECT n.nspname AS schema, e.extversion AS version, current_user AS role,
              to_regproc(quote_ident(n.nspname) || '.rag_get_chunks') IS NOT NULL AS is_new,
              current_database() AS database,
              current_setting('server_version_num')::integer AS server
       FROM (SELECT) AS one LEFT JOIN pg_catalog.pg_extension e ON e.extname = 'rag'
            LEFT JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace`,
    );
    const found = rows[0];
    if (found.server < MINIMUM_SERVER) {
      const major = Math.floor(found.server / 10000);
      throw new NoConnection(`the server is PostgreSQL ${major}, and rag needs 15. Upgrade it.`);
    }
    if (found.schema === null) {
      throw new ExtensionMissing(
        `the database "${found.database}" does not have the extension rag. As a superuser, run: ` +
          "CREATE EXTENSION rag",
      );
    }
    if (!found.is_new) {
      throw new ExtensionMissing(
        `the extension rag ${found.version} of the database "${found.database}" is too old for ` +
          "this client. Install a newer one, and run: ALTER EXTENSION rag UPDATE",
      );
    }
    return { schema: found.schema, role: found.role };
  }

  /** Waits for the first connection. Throws a RagError if something is missing. */
  async check(): Promise<this> {
    await this.#schema();
    return this;
  }

  async #schema(): Promise<Installed> {
    this.#installed ??= this.#find();
    try {
      return await this.#installed;
    } catch (error) {
      this.#installed = undefined;
      throw explained(error);
    }
  }

  async #run(text: string, values: Value[], client: pg.Pool | pg.PoolClient = this.#pool): Promise<any[]> {
    const { schema, role } = await this.#schema();
    try {
      const query = text.replaceAll("{rag}", () => pg.escapeIdentifier(schema));
      return (await client.query(query, values)).rows;
    } catch (error) {
      throw explained(error, role);
    }
  }

  async #transaction<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    await this.#schema();
    const client = await this.#pool.connect();
    let failed: Error | undefined;
    try {
      await client.query("BEGIN");
      const result = await work(client);
      await client.query("COMMIT");
      return result;
    } catch (error) {
      await client.query("ROLLBACK").catch((e: Error) => (failed = e));
      throw error;
    } finally {
      client.release(failed);
    }
  }

  /** Returns the chunks that match best, as `rag_search` does. */
  async search(query: string | null, options: SearchOptions = {}): Promise<Hit[]> {
    const { collection = "default", embedding } = options;
    return await this.#run(SEARCH, [
      query,
      Array.isArray(collection) ? collection : [collection],
      options.topK ?? null,
      options.mode ?? null,
      json(options.filter),
      options.rerank ?? null,
      json(options.settings),
      json(embedding),
    ]);
  }

  /** Adds or replaces documents, which the extension splits and embeds. */
  async add(documents: NewDocument | NewDocument[], collection = "default"): Promise<Added[]> {
    const all = Array.isArray(documents) ? documents : [documents];
    return await this.#transaction(async (client) => {
      const added: Added[] = [];
      for (let i = 0; i < all.length; i += BATCH) {
        const text = "SELECT uri, action, success, error FROM {rag}.rag_add_documents($1::jsonb, $2)";
        added.push(...(await this.#run(text, [json(all.slice(i, i + BATCH)), collection], client)));
      }
      return added;
    });
  }

  /** Writes chunks as they are, in one transaction. Returns the number written. */
  async upsert(chunks: Chunk[], collection = "default", replace = true): Promise<number> {
    const blank = chunks.find((chunk) => chunk.content.trim() === "");
    if (blank) throw new TypeError(`chunk "${blank.id}" has no text, and rag stores texts only`);
    const last = [...new Map(chunks.map((chunk) => [chunk.id, chunk])).values()];
    const text = "SELECT {rag}.rag_upsert_chunks($1::jsonb, $2::text, $3::boolean) AS written";
    return await this.#transaction(async (client) => {
      let written = 0;
      for (let i = 0; i < last.length; i += BATCH) {
        const batch = last.slice(i, i + BATCH).map(({ id, content, metadata, embedding }) => ({
          chunk_id: id,
          document_id: id,
          text: content,
          ...(metadata ? { metadata } : {}),
          ...(embedding ? { embedding } : {}),
        }));
        const rows = await this.#run(text, [json(batch), collection, !replace], client);
        written += Number(rows[0].written);
      }
      return written;
    });
  }

  /** Returns the chunks with some ids, or that pass a filter; without both, all. */
  async get(selection: Selection = {}, collection = "default"): Promise<Chunk[]> {
    return await this.#run(
      `SELECT coalesce(given_id, chunk_id::text) AS id, content, metadata
       FROM {rag}.rag_get_chunks($1::text, $2::text[], $3::jsonb)`,
      [collection, selection.ids ?? null, json(selection.filter)],
    );
  }

  /** Deletes the chunks with some ids, or that pass a filter. A filter `{}` deletes all. */
  async delete(selection: Selection, collection = "default"): Promise<number> {
    if (!selection.ids && !selection.filter) {
      throw new TypeError("delete needs ids or a filter; { filter: {} } deletes all chunks");
    }
    const rows = await this.#run(
      `SELECT {rag}.rag_delete_chunks(ARRAY(SELECT chunk_id::text
                  FROM {rag}.rag_get_chunks($1::text, $2::text[], $3::jsonb)), $1) AS deleted`,
      [collection, selection.ids ?? null, json(selection.filter)],
    );
    return Number(rows[0].deleted);
  }

  /** Returns the number of chunks, or of those that pass a filter. */
  async count(filter?: Filter, collection = "default"): Promise<number> {
    const rows = await this.#run(
      `SELECT coalesce(sum(chunks), 0) AS chunks
       FROM {rag}.rag_facets(NULL, $1::text, '{document_type}', $2::jsonb, 1000)`,
      [collection, json(filter)],
    );
    return Number(rows[0].chunks);
  }

  /** Creates a collection; with `dimensions`, one without a model. */
  async createCollection(name: string, dimensions?: number): Promise<void> {
    const text = "SELECT {rag}.rag_create_collection($1::text, dimensions => $2::integer)";
    await this.#run(text, [name, dimensions ?? null]);
  }

  /** Drops a collection and its documents. */
  async dropCollection(name: string): Promise<void> {
    await this.#run("SELECT {rag}.rag_drop_collection($1::text)", [name]);
  }

  static readonly #arguments = `($1::text, $2::text, top_k => $3::integer, mode => $4::text,
    filter => $5::jsonb, settings => $6::jsonb, model => $7::text,
    conversation_history => $8::jsonb)`;

  static #question(query: string, options: AnswerOptions): Value[] {
    return [
      query,
      options.collection ?? "default",
      options.topK ?? null,
      options.mode ?? null,
      json(options.filter),
      json(options.settings),
      options.model ?? null,
      json(options.history),
    ];
  }

  /** Has a chat model answer from what a search finds. */
  async answer(query: string, options: AnswerOptions = {}): Promise<Answer> {
    const rows = await this.#run(
      "SELECT message, context_used AS context, model, metadata FROM {rag}.rag_answer" + Rag.#arguments,
      Rag.#question(query, options),
    );
    return rows[0];
  }

  /** Returns the pieces of an answer as the model writes them. Leaving the loop ends the call. */
  async *stream(query: string, options: AnswerOptions = {}): AsyncGenerator<string, void> {
    await this.#schema();
    const client = await this.#pool.connect();
    let failed: Error | undefined;
    try {
      await client.query("BEGIN");
      await this.#run(
        `DECLARE rag_pieces NO SCROLL CURSOR FOR SELECT (a).event, (a).text
         FROM (SELECT {rag}.rag_answer_stream${Rag.#arguments} AS a) AS s`,
        Rag.#question(query, options),
        client,
      );
      for (;;) {
        const [piece] = await this.#run("FETCH 1 FROM rag_pieces", [], client);
        if (piece === undefined) break;
        if (piece.event === "text") yield piece.text;
      }
    } finally {
      await client.query("ROLLBACK").catch((e: Error) => (failed = e));
      client.release(failed);
    }
  }

  /** Syncs a source and waits for the end. Throws a RagError if the run fails. */
  async sync(source: string, onProgress?: (progress: Progress) => void): Promise<number> {
    const [{ run }] = await this.#run("SELECT {rag}.rag_sync($1::text, wait => false) AS run", [source]);
    for (;;) {
      const text = "SELECT {rag}.rag_wait($1::bigint, '0.5 s'::interval) AS phase";
      const [{ phase }] = await this.#run(text, [run]);
      if (phase !== "Pending" && phase !== "Running") break;
      const [state] = await this.#run(
        `SELECT stage, documents_done::float8 AS done, documents_total::float8 AS total,
                chunks_done::float8 AS chunks FROM rag.progress WHERE run_id = $1::bigint`,
        [run],
      );
      if (state && onProgress) onProgress(state);
    }
    const [ended] = await this.#run(
      "SELECT phase, coalesce(errors ->> 'message', note) AS message FROM rag.runs WHERE run_id = $1",
      [run],
    );
    if (ended.phase === "Failed") {
      throw new RagError(`the sync of "${source}" failed: ${ended.message}. See rag.runs.`);
    }
    return Number(run);
  }
}

/** Returns a client, after the first connection. Throws a RagError if something is missing. */
export async function connect(connection?: string | pg.PoolConfig | pg.Pool): Promise<Rag> {
  const rag = new Rag(connection);
  try {
    return await rag.check();
  } catch (error) {
    await rag.close();
    throw error;
  }
}
