// LangChain.js and the Vercel AI SDK, with a model that calls the tool.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Document } from "@langchain/core/documents";
import { RunnableLambda } from "@langchain/core/runnables";
import { generateText, stepCountIs } from "ai";
import { MockLanguageModelV3 } from "ai/test";

import { searchTool } from "../src/ai.js";
import { Rag } from "../src/index.js";
import { RagRetriever } from "../src/langchain.js";

const rag = new Rag();
const collection = `f${process.pid}`;

before(async () => {
  await rag.createCollection(collection);
  const notes = { keys: "Keys are rotated every 90 days.", lunch: "Lunch is at noon.", tea: "Tea." };
  await rag.add(
    Object.entries(notes).map(([uri, content]) => ({ uri, content, metadata: { kind: uri } })),
    collection,
  );
});
after(async () => {
  await rag.dropCollection(collection);
  await rag.close();
});

test("the retriever of LangChain.js", async () => {
  const retriever = new RagRetriever({ rag, collection, k: 2 });
  const documents = await retriever.invoke("when are keys rotated?");
  assert.equal(documents.length, 2);
  assert.ok(documents.every((document) => document instanceof Document));
  assert.equal(documents[0]?.metadata.source, "keys");
  assert.match(documents[0]?.metadata.citation, /^\[1\] /);
  const [several] = await retriever.batch(["lunch"]);
  assert.equal(several?.[0]?.pageContent, "Lunch is at noon.");
  const chain = retriever.pipe(RunnableLambda.from((found: Document[]) => found.length));
  assert.equal(await chain.invoke("tea"), 2);
  const one = new RagRetriever({ rag, collection, k: 5, filter: { kind: "tea" } });
  assert.equal((await one.invoke("keys")).length, 1);
});

test("the tool of the Vercel AI SDK", async () => {
  const usage = {
    inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
    outputTokens: { total: 1, text: 1, reasoning: 0 },
  };
  let seen = "";
  const model = new MockLanguageModelV3({
    doGenerate: async ({ prompt }) => {
      const last = prompt.at(-1);
      if (last?.role !== "tool") {
        const input = JSON.stringify({ query: "when are keys rotated?" });
        return {
          content: [{ type: "tool-call", toolCallId: "1", toolName: "search", input }],
          finishReason: { unified: "tool-calls", raw: undefined },
          usage,
          warnings: [],
        };
      }
      seen = JSON.stringify(last.content);
      return {
        content: [{ type: "text", text: "Every 90 days [1]." }],
        finishReason: { unified: "stop", raw: undefined },
        usage,
        warnings: [],
      };
    },
  });
  const { text } = await generateText({
    model,
    tools: { search: searchTool({ rag, collection, topK: 1 }) },
    stopWhen: stepCountIs(3),
    prompt: "When are keys rotated?",
  });
  assert.equal(text, "Every 90 days [1].");
  assert.match(seen, /Keys are rotated every 90 days\..*\[1\] keys/);
});
