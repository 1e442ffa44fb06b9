// A retriever of LangChain.js.

import type { CallbackManagerForRetrieverRun } from "@langchain/core/callbacks/manager";
import { Document } from "@langchain/core/documents";
import { BaseRetriever, type BaseRetrieverInput } from "@langchain/core/retrievers";

import type { Hit, Rag, SearchOptions } from "./index.js";

export interface RagRetrieverInput extends BaseRetrieverInput, Omit<SearchOptions, "topK"> {
  rag: Rag;
  /** The number of documents; default 4. */
  k?: number;
}

/**
 * Searches a collection, by the model of the database. `source`, `title`, `citation` and `score` are
 * in the metadata of each document. A key of its own metadata wins.
 */
export class RagRetriever extends BaseRetriever {
  lc_namespace = ["rag-postgresql", "retrievers"];
  readonly #rag: Rag;
  readonly #options: SearchOptions;

  static override lc_name() {
    return "RagRetriever";
  }

  constructor(input: RagRetrieverInput) {
    super(input);
    const { rag, k = 4, callbacks, tags, metadata, verbose, ...options } = input;
    this.#rag = rag;
    this.#options = { ...options, topK: k };
  }

  override async _getRelevantDocuments(
    query: string,
    _runManager?: CallbackManagerForRetrieverRun,
  ): Promise<Document[]> {
    return (await this.#rag.search(query, this.#options)).map(toDocument);
  }
}

function toDocument(hit: Hit): Document {
  const { uri, title, citation, score, page, collection } = hit;
  const columns = { source: uri, title, citation, score, page, collection };
  const known = Object.fromEntries(Object.entries(columns).filter(([, value]) => value !== null));
  return new Document({ id: hit.id, pageContent: hit.content, metadata: { ...known, ...hit.metadata } });
}
