// The wiki's search. GET /search?q=... returns the best pages that the reader's group may read.
import { createServer } from "node:http";
import { Rag, RagError } from "rag-postgresql";

const GROUPS = {
  staff: { role: "wiki_staff", collections: ["wiki-public"] },
  hr: { role: "wiki_hr", collections: ["wiki-public", "wiki-hr"] },
};

// Each group has connections of its own, whose sessions have the rights of its role.
for (const group of Object.values(GROUPS)) {
  group.rag = new Rag({ options: `-c role=${group.role}`, max: 5 });
}

async function search(request) {
  const url = new URL(request.url, "http://wiki");
  const query = url.searchParams.get("q")?.trim();
  const group = GROUPS[request.headers["x-group"] ?? "staff"];
  if (request.method !== "GET" || url.pathname !== "/search") return [404, { error: "not found" }];
  if (!query || query.length > 1000) return [400, { error: "q: 1 to 1000 characters" }];
  if (!group) return [403, { error: "unknown group" }];
  const hits = await group.rag.search(query, { collection: group.collections, topK: 5 });
  return [200, hits.map(({ title, uri, snippet, score }) => ({ title, uri, snippet, score }))];
}

createServer(async (request, response) => {
  let status, body;
  try {
    [status, body] = await search(request);
  } catch (error) {
    console.error(error);
    [status, body] = [503, { error: error instanceof RagError ? error.message : "unavailable" }];
  }
  response.writeHead(status, { "Content-Type": "application/json" });
  response.end(`${JSON.stringify(body, null, 2)}\n`);
}).listen(process.env.PORT ?? 8080, "127.0.0.1", function () {
  console.log(`http://127.0.0.1:${this.address().port}/search?q=...`);
});
