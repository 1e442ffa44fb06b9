-- Comments on the functions of rag-gateway's routes. Those of routes are the summaries of the table
-- in crates/gateway/src/routes, which a test compares.

SET LOCAL search_path = pg_catalog, pg_temp;

COMMENT ON FUNCTION rag_api.access(jsonb) IS 'tells what the role of the key may do';
COMMENT ON FUNCTION rag_api.add_document(jsonb) IS
    'indexes a document; replaces the one with the same uri';
COMMENT ON FUNCTION rag_api.add_documents(jsonb) IS 'indexes several documents';
COMMENT ON FUNCTION rag_api.answer(jsonb) IS 'has a chat model answer a question';
COMMENT ON FUNCTION rag_api.answer_stream(jsonb) IS
    'answers a question in pieces, as the chat model writes it';
COMMENT ON FUNCTION rag_api.cancel_run(jsonb) IS 'cancels a run';
COMMENT ON FUNCTION rag_api.chat_completion(jsonb) IS
    'answers a question from the documents of a collection';
COMMENT ON FUNCTION rag_api.chat_stream(jsonb) IS
    'answers a request of OpenAI''s API in pieces, as the chat model writes it';
COMMENT ON FUNCTION rag_api.collection_indexes(jsonb) IS 'describes the indexes of a collection';
COMMENT ON FUNCTION rag_api.collection_recall(jsonb) IS
    'measures the index of vectors of a collection';
COMMENT ON FUNCTION rag_api.context(jsonb) IS 'quotes what a search finds, for a model';
COMMENT ON FUNCTION rag_api.create_collection(jsonb) IS 'creates a collection';
COMMENT ON FUNCTION rag_api.create_file(jsonb) IS 'uploads a file for vector stores';
COMMENT ON FUNCTION rag_api.create_file_batch(jsonb) IS 'indexes several uploaded files';
COMMENT ON FUNCTION rag_api.create_knowledge(jsonb) IS 'creates a knowledge item';
COMMENT ON FUNCTION rag_api.create_retriever(jsonb) IS 'creates the Retriever of the body';
COMMENT ON FUNCTION rag_api.create_source(jsonb) IS 'creates a source';
COMMENT ON FUNCTION rag_api.create_vector_store(jsonb) IS 'creates a vector store: a collection';
COMMENT ON FUNCTION rag_api.create_vector_store_file(jsonb) IS 'indexes an uploaded file';
COMMENT ON FUNCTION rag_api.delete_collection(jsonb) IS 'drops a collection and its documents';
COMMENT ON FUNCTION rag_api.delete_document(jsonb) IS 'deletes a document';
COMMENT ON FUNCTION rag_api.delete_file(jsonb) IS
    'deletes an uploaded file; documents that were made of it stay';
COMMENT ON FUNCTION rag_api.delete_instance(jsonb) IS 'drops an instance and its documents';
COMMENT ON FUNCTION rag_api.delete_retriever(jsonb) IS 'drops a Retriever';
COMMENT ON FUNCTION rag_api.delete_source(jsonb) IS 'drops a source';
COMMENT ON FUNCTION rag_api.delete_vector_store(jsonb) IS 'drops a vector store and its documents';
COMMENT ON FUNCTION rag_api.delete_vector_store_file(jsonb) IS 'deletes a document';
COMMENT ON FUNCTION rag_api.dify_retrieval(jsonb) IS
    'answers Dify''s client for external knowledge bases, as rag_dify_retrieval';
COMMENT ON FUNCTION rag_api.embeddings(jsonb) IS 'embeds texts';
COMMENT ON FUNCTION rag_api.event(jsonb) IS 'sends events of runs and sources as they happen';
COMMENT ON FUNCTION rag_api.explain(jsonb) IS 'tells what each part of a search did';
COMMENT ON FUNCTION rag_api.facets(jsonb) IS 'counts the values of keys';
COMMENT ON FUNCTION rag_api.get_collection(jsonb) IS 'returns a collection';
COMMENT ON FUNCTION rag_api.get_document(jsonb) IS 'returns a document with its text';
COMMENT ON FUNCTION rag_api.get_file(jsonb) IS 'returns an uploaded file';
COMMENT ON FUNCTION rag_api.get_model(jsonb) IS 'returns a model';
COMMENT ON FUNCTION rag_api.get_retriever(jsonb) IS 'returns a Retriever';
COMMENT ON FUNCTION rag_api.get_run(jsonb) IS 'returns a run';
COMMENT ON FUNCTION rag_api.get_source(jsonb) IS 'returns a source';
COMMENT ON FUNCTION rag_api.get_vector_store(jsonb) IS 'returns a vector store';
COMMENT ON FUNCTION rag_api.get_vector_store_file(jsonb) IS 'returns a file of a vector store';
COMMENT ON FUNCTION rag_api.index_all_knowledge(jsonb) IS 'indexes all knowledge items';
COMMENT ON FUNCTION rag_api.index_instance(jsonb) IS 'replaces the documents of an instance';
COMMENT ON FUNCTION rag_api.index_knowledge(jsonb) IS 'fetches and indexes a knowledge item';
COMMENT ON FUNCTION rag_api.instance_status(jsonb) IS 'returns the state of an instance';
COMMENT ON FUNCTION rag_api.kaito_delete_documents(jsonb) IS 'deletes documents';
COMMENT ON FUNCTION rag_api.kaito_delete_index(jsonb) IS 'drops an index';
COMMENT ON FUNCTION rag_api.kaito_index(jsonb) IS 'indexes documents';
COMMENT ON FUNCTION rag_api.kaito_indexes(jsonb) IS 'lists indexes';
COMMENT ON FUNCTION rag_api.kaito_list(jsonb) IS 'lists documents';
COMMENT ON FUNCTION rag_api.kaito_load(jsonb) IS 'does nothing: an index need not be loaded';
COMMENT ON FUNCTION rag_api.kaito_persist(jsonb) IS
    'does nothing: an index is stored as it is filled';
COMMENT ON FUNCTION rag_api.kaito_retrieve(jsonb) IS 'searches an index';
COMMENT ON FUNCTION rag_api.kaito_update(jsonb) IS 'updates documents';
COMMENT ON FUNCTION rag_api.knowledge_query(jsonb) IS 'searches, as rag_knowledge_search';
COMMENT ON FUNCTION rag_api.knowledge_search(jsonb) IS 'searches, as rag_knowledge_search';
COMMENT ON FUNCTION rag_api.list_collections(jsonb) IS 'lists collections';
COMMENT ON FUNCTION rag_api.list_documents(jsonb) IS 'lists documents by uri';
COMMENT ON FUNCTION rag_api.list_files(jsonb) IS 'lists uploaded files';
COMMENT ON FUNCTION rag_api.list_instances(jsonb) IS 'lists instances';
COMMENT ON FUNCTION rag_api.list_models(jsonb) IS 'lists models';
COMMENT ON FUNCTION rag_api.list_retrievers(jsonb) IS 'lists retrievers';
COMMENT ON FUNCTION rag_api.list_runs(jsonb) IS 'lists runs, latest first';
COMMENT ON FUNCTION rag_api.list_sources(jsonb) IS 'lists sources by name';
COMMENT ON FUNCTION rag_api.list_vector_store_files(jsonb) IS 'lists files: documents';
COMMENT ON FUNCTION rag_api.list_vector_stores(jsonb) IS 'lists vector stores';
COMMENT ON FUNCTION rag_api.mcp_add_document(jsonb) IS 'answers the tool add_document of MCP';
COMMENT ON FUNCTION rag_api.mcp_answer(jsonb) IS 'answers the tool answer of MCP';
COMMENT ON FUNCTION rag_api.mcp_collections(jsonb) IS 'answers the tool list_collections of MCP';
COMMENT ON FUNCTION rag_api.mcp_fetch(jsonb) IS 'answers the tool fetch of MCP';
COMMENT ON FUNCTION rag_api.mcp_search(jsonb) IS 'answers the tool search of MCP';
COMMENT ON FUNCTION rag_api.mcp_sources(jsonb) IS 'answers the tool list_sources of MCP';
COMMENT ON FUNCTION rag_api.mcp_tools(jsonb) IS 'tells which tools of MCP the caller can use';
COMMENT ON FUNCTION rag_api.metrics(jsonb) IS
    'metrics in Prometheus'' text format or OpenMetrics; with a key also those that '
    'rag_metrics_text() returns';
COMMENT ON FUNCTION rag_api.model_usage(jsonb) IS 'returns models, and their calls by day';
COMMENT ON FUNCTION rag_api.overview(jsonb) IS 'counts sources, documents and calls of models';
COMMENT ON FUNCTION rag_api.reload_instance(jsonb) IS 'does nothing: an index need not be loaded';
COMMENT ON FUNCTION rag_api.response(jsonb) IS
    'answers a question from the documents of a collection';
COMMENT ON FUNCTION rag_api.resume_source(jsonb) IS 'resumes a source';
COMMENT ON FUNCTION rag_api.retrieve(jsonb) IS 'answers a retrieval request, as rag_retrieve';
COMMENT ON FUNCTION rag_api.search(jsonb) IS 'searches collections';
COMMENT ON FUNCTION rag_api.search_stats(jsonb) IS 'returns counts and times of searches';
COMMENT ON FUNCTION rag_api.search_vector_store(jsonb) IS 'searches a vector store';
COMMENT ON FUNCTION rag_api.stats(jsonb) IS 'returns counts of a collection, as rag_stats';
COMMENT ON FUNCTION rag_api.status(jsonb) IS 'returns current problems and progress';
COMMENT ON FUNCTION rag_api.suspend_source(jsonb) IS 'suspends a source';
COMMENT ON FUNCTION rag_api.sync_source(jsonb) IS 'queues a run of a source';
COMMENT ON FUNCTION rag_api.test_retriever(jsonb) IS 'tests a Retriever';
COMMENT ON FUNCTION rag_api.unindex_knowledge(jsonb) IS 'removes the documents of a knowledge item';
COMMENT ON FUNCTION rag_api.update_collection(jsonb) IS 'changes a collection';
COMMENT ON FUNCTION rag_api.update_document(jsonb) IS 'changes title, category, tags or metadata';
COMMENT ON FUNCTION rag_api.update_retriever(jsonb) IS 'replaces a Retriever by that of the body';
COMMENT ON FUNCTION rag_api.update_source(jsonb) IS 'changes a source';
COMMENT ON FUNCTION rag_api.update_vector_store(jsonb) IS 'changes a vector store';
COMMENT ON FUNCTION rag_api.update_vector_store_file(jsonb) IS 'changes the attributes of a file';
COMMENT ON FUNCTION rag_api.upload_document(jsonb) IS 'indexes a document in a knowledge base';
COMMENT ON FUNCTION rag_api.validate_source(jsonb) IS 'checks the definition of a source';
COMMENT ON FUNCTION rag_api.vector_store_file_content(jsonb) IS 'returns the text of a file';

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
