-- Models: definitions, grants, and counts of calls. No role is granted anything on
-- the tables. Users read the views, which show the models that they may use.

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE TABLE rag_internal.model (
    name text PRIMARY KEY CHECK (rag_internal.is_qualified_name(name)),
    namespace text NOT NULL GENERATED ALWAYS AS (rag_internal.namespace_of(name)) STORED,
    uid uuid NOT NULL DEFAULT gen_random_uuid(),
    kind text NOT NULL,
    provider text NOT NULL,
    spec jsonb NOT NULL,
    fingerprint text,
    dimensions integer,
    credentials text,
    credentials_key text,
    owner text NOT NULL,
    owner_id oid NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE rag_internal.model IS 'models; use rag.models instead';
COMMENT ON COLUMN rag_internal.model.uid IS
    'identifies the model in the counts of calls; a later model of the same name has another uid';
COMMENT ON COLUMN rag_internal.model.fingerprint IS
    'hash of what the vectors of an embedding model depend on, as last seen';
COMMENT ON COLUMN rag_internal.model.dimensions IS
    'dimensions of the vectors of an embedding model, as last seen';
COMMENT ON COLUMN rag_internal.model.credentials
    IS 'secret that is sent to the server, taken from spec';
COMMENT ON COLUMN rag_internal.model.credentials_key IS
    'key of the secret; NULL: token if it exists, otherwise password';
COMMENT ON COLUMN rag_internal.model.owner IS
    'last known name of the owner; used to find the role when a dump is restored';
COMMENT ON COLUMN rag_internal.model.owner_id IS
    'role whose members can do everything with the model; 0: the role did not exist when a dump '
    'was restored';

CREATE TABLE rag_internal.model_grant (
    model text NOT NULL,
    role text NOT NULL,
    role_id oid,
    UNIQUE (model, role_id)
);
COMMENT ON TABLE rag_internal.model_grant IS
    'roles that may use a model besides its owner; use rag.models instead';
COMMENT ON COLUMN rag_internal.model_grant.role IS
    'name of the role when the privilege was granted; used to find the role when a dump is '
    'restored';
COMMENT ON COLUMN rag_internal.model_grant.role_id IS
    'role that may use the model; 0: all roles; NULL: the role did not exist when a dump was '
    'restored';

CREATE TRIGGER find_owner BEFORE INSERT ON rag_internal.model
    FOR EACH ROW EXECUTE FUNCTION rag_internal.find_owner();
CREATE TRIGGER find_grantee BEFORE INSERT ON rag_internal.model_grant
    FOR EACH ROW EXECUTE FUNCTION rag_internal.find_grantee();

CREATE FUNCTION rag_internal.usable_models() RETURNS text[]
    AS 'MODULE_PATHNAME', 'usable_models_wrapper'
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION rag_internal.usable_models() IS 'models that the current role may use';
CREATE FUNCTION rag_internal.visible_models() RETURNS text[]
    AS 'MODULE_PATHNAME', 'visible_models_wrapper'
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION rag_internal.visible_models() IS
    'models that the current role may see: those that it may use; for members of rag_admin, all';
CREATE FUNCTION rag_internal.default_prompt_template() RETURNS text
    AS 'MODULE_PATHNAME', 'default_prompt_template_wrapper'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION rag_internal.default_prompt_template() IS
    'prompt template of chat models that have none of their own';
-- It leaves out models that the current role may not see.
CREATE FUNCTION rag_internal.model_counts()
    RETURNS TABLE (model text, day integer, calls bigint, errors bigint, input_tokens bigint,
                   output_tokens bigint, estimated bigint, cost bigint)
    AS 'MODULE_PATHNAME', 'model_counts_wrapper' LANGUAGE c VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION rag_internal.model_counts() IS
    'calls, tokens and cost in billionths of models that the caller may see, by days since '
    '1970-01-01; use rag.model_usage instead';

CREATE VIEW rag.model_usage AS
    SELECT model, date '1970-01-01' + day AS day, calls, errors, input_tokens, output_tokens,
           input_tokens + output_tokens AS tokens, estimated, trim_scale(cost * 1e-9) AS cost
    FROM rag_internal.model_counts();
COMMENT ON VIEW rag.model_usage IS 'calls, tokens and cost of models, by day';
COMMENT ON COLUMN rag.model_usage.model IS 'name of the model';
COMMENT ON COLUMN rag.model_usage.day IS 'day in UTC; the last 100 days with calls are kept';
COMMENT ON COLUMN rag.model_usage.calls IS 'number of calls that began on this day';
COMMENT ON COLUMN rag.model_usage.errors IS 'calls that failed or were cancelled';
COMMENT ON COLUMN rag.model_usage.input_tokens IS 'tokens that were sent';
COMMENT ON COLUMN rag.model_usage.output_tokens IS 'tokens that were received';
COMMENT ON COLUMN rag.model_usage.tokens IS 'sum of both';
COMMENT ON COLUMN rag.model_usage.estimated IS
    'calls whose tokens the server did not count; they are then a quarter of the bytes';
COMMENT ON COLUMN rag.model_usage.cost IS
    'what calls cost by the prices that the model had at the time; NULL if it had none';

CREATE VIEW rag.models WITH (security_barrier) AS
    SELECT m.name, m.kind, m.provider, m.spec ->> 'model' AS model,
           m.spec ->> 'base_url' AS base_url, m.spec ->> 'path' AS path, m.fingerprint,
           coalesce(m.dimensions, (
               SELECT max(c.embedding_dimension) FROM rag_internal.collection c
               WHERE c.model_fingerprint = m.fingerprint)) AS dimensions,
           ARRAY(SELECT c.name FROM rag_internal.collection c
                      LEFT JOIN rag_internal.retriever t ON t.name = c.retriever
                 WHERE m.kind = 'embedding'
                   AND coalesce(c.embedding_model, t.model) = m.name
                   AND c.name = ANY ((SELECT rag_internal.readable_collections())::text[])
                 ORDER BY 1) AS used_by,
           (SELECT r.rolname::text FROM pg_catalog.pg_roles r WHERE r.oid = m.owner_id) AS owner,
           m.name = ANY ((SELECT rag_internal.usable_models())::text[]) AS may_use,
           ARRAY(SELECT coalesce(r.rolname, 'public')::text
                 FROM rag_internal.model_grant g LEFT JOIN pg_catalog.pg_roles r
                     ON r.oid = g.role_id
                 WHERE g.model = m.name AND (g.role_id = 0 OR r.oid IS NOT NULL)
                 ORDER BY 1) AS granted_to,
           m.spec,
           CASE WHEN m.kind = 'chat'
                THEN coalesce(m.spec ->> 'promptTemplate', rag_internal.default_prompt_template())
                END AS prompt_template,
           u.calls, u.errors, u.tokens, u.cost, m.namespace, m.created_at, m.updated_at
    FROM rag_internal.model m
         LEFT JOIN (SELECT c.model, sum(c.calls)::bigint AS calls, sum(c.errors)::bigint AS errors,
                           sum(c.tokens)::bigint AS tokens, sum(c.cost) AS cost
                    FROM rag.model_usage c GROUP BY c.model) u ON u.model = m.name
    WHERE m.name = ANY ((SELECT rag_internal.visible_models())::text[]);
COMMENT ON VIEW rag.models IS 'embedding models, rerankers and chat models';
COMMENT ON COLUMN rag.models.name IS 'name; namespace/name if the namespace is not default';
COMMENT ON COLUMN rag.models.kind IS 'embedding, rerank or chat';
COMMENT ON COLUMN rag.models.provider IS
    'local, or interface of the server: openai, ollama, cohere or tei';
COMMENT ON COLUMN rag.models.model IS 'name of the model at its server';
COMMENT ON COLUMN rag.models.base_url IS 'address of the server';
COMMENT ON COLUMN rag.models.path IS 'folder of a model on this server';
COMMENT ON COLUMN rag.models.fingerprint IS
    'hash of what the vectors of an embedding model depend on; equal fingerprints give equal '
    'vectors';
COMMENT ON COLUMN rag.models.dimensions IS
    'dimensions of the vectors of an embedding model; NULL until they are known';
COMMENT ON COLUMN rag.models.used_by IS
    'collections of the embedding model, as far as the current role can read them';
COMMENT ON COLUMN rag.models.owner IS
    'role whose members may change, drop and use the model; NULL if the role no longer exists';
COMMENT ON COLUMN rag.models.may_use IS 'true if the current role may use the model';
COMMENT ON COLUMN rag.models.granted_to IS
    'roles that may use the model besides its owner; public: all roles';
COMMENT ON COLUMN rag.models.spec IS 'settings; keys are named by their secrets';
COMMENT ON COLUMN rag.models.prompt_template IS
    'prompt template of a chat model, its own or the default';
COMMENT ON COLUMN rag.models.calls IS
    'number of calls in rag.model_usage; NULL if there are none';
COMMENT ON COLUMN rag.models.errors IS 'calls that failed or were cancelled';
COMMENT ON COLUMN rag.models.tokens IS 'tokens that were sent and received';
COMMENT ON COLUMN rag.models.cost IS
    'what calls cost by the prices that the model had at the time; NULL if it had none';
COMMENT ON COLUMN rag.models.namespace IS 'namespace, taken from the name';
COMMENT ON COLUMN rag.models.created_at IS 'time when the model was created';
COMMENT ON COLUMN rag.models.updated_at IS 'time of the last change';

CREATE FUNCTION rag_internal.embedding_cache_size()
    RETURNS TABLE (entries bigint, bytes bigint, max_bytes bigint)
    AS 'MODULE_PATHNAME', 'embedding_cache_size_wrapper' LANGUAGE c VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION rag_internal.embedding_cache_size() IS
    'size of the cache of embeddings, for members of rag_admin and pg_monitor; '
    'use rag.embedding_cache instead';

CREATE VIEW rag.embedding_cache AS
    SELECT entries, bytes, max_bytes FROM rag_internal.embedding_cache_size();
COMMENT ON VIEW rag.embedding_cache IS
    'size of the cache of embeddings of the database; no row for roles outside of rag_admin';
COMMENT ON COLUMN rag.embedding_cache.entries IS 'number of cached embeddings';
COMMENT ON COLUMN rag.embedding_cache.bytes IS 'bytes in use';
COMMENT ON COLUMN rag.embedding_cache.max_bytes IS 'rag.embedding_cache_size, in bytes';

SELECT pg_catalog.pg_extension_config_dump('rag_internal.model', '');
SELECT pg_catalog.pg_extension_config_dump('rag_internal.model_grant', '');

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
