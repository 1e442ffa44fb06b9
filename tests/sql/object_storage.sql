-- Definitions of sources in object storage: s3, azblob, gcs.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'
SET client_min_messages = warning;

-- all errors of a definition are reported at once
SELECT rag_create_source('docs', 's3', '{}'); :sqlstate
SELECT rag_create_source('docs', 's3',
    '{"bucket": "s3://docs/guides/", "prefix": "/guides", "region": "Frankfurt am Main",
    "endpoint": "minio:9000", "pathStyle": "yes", "versions": 3, "paths": ["[z-a]"],
    "buckt": "docs"}'); :sqlstate
SELECT rag_create_source('docs', 's3',
    '{"bucket": "docs", "endpoint": "https://docs.fra1.storage.example"}'); :sqlstate
SELECT rag_create_source('docs', 's3',
    '{"bucket": "docs", "endpoint": "https://me:secret@storage.example"}'); :sqlstate
SELECT rag_create_source('docs', 'azblob',
    '{"account": "company.blob.core.windows.net", "container": "az://docs"}'); :sqlstate
SELECT rag_create_source('docs', 'gcs', '{"bucket": "docs/guides"}'); :sqlstate

-- addresses that a run would refuse are warnings
SELECT * FROM rag_validate_source('s3',
    '{"bucket": "docs", "endpoint": "http://169.254.169.254"}');

-- credentials are not sent over http
SELECT rag_create_secret('storage', 'id', key => 'username');
SELECT rag_create_secret('storage', 'word', key => 'password');
SELECT rag_create_source('docs', 's3', '{"bucket": "docs", "endpoint": "http://storage.example"}',
    credentials => 'storage'); :sqlstate
SELECT count(*) FROM rag_validate_source('s3',
    '{"bucket": "docs", "endpoint": "http://storage.example"}');

-- the identity of the machine needs a setting of a superuser, and excludes credentials
SELECT rag_create_source('docs', 's3', '{"bucket": "docs", "instanceIdentity": true}'); :sqlstate
SELECT kind, field, problem, hint
FROM (VALUES ('s3', '{"bucket": "docs", "instanceIdentity": true}'::jsonb),
    ('azblob', '{"account": "company", "container": "docs", "instanceIdentity": true}'),
    ('gcs', '{"bucket": "docs", "instanceIdentity": true}')) AS given (kind, spec),
    rag_validate_source(kind, spec, credentials => 'storage');
SET rag.allow_instance_identity = on; :sqlstate

-- a right definition, which is not synced
SELECT rag_create_source('bucket', 's3',
    '{"bucket": "docs", "prefix": "guides/", "paths": ["*.md"], "tags": ["a"]}',
    credentials => 'storage', suspend => true);
SELECT rag_create_source('container', 'azblob', '{"account": "company", "container": "docs"}',
    suspend => true);
SELECT rag_create_source('google', 'gcs', '{"bucket": "docs"}', suspend => true);
SELECT name, kind, spec, credentials FROM rag.sources ORDER BY name;
SELECT rag_alter_source('bucket', spec => '{"bucket": "docs", "region": "eu-central-1"}');
SELECT spec, generation FROM rag.sources WHERE name = 'bucket';
SELECT count(rag_drop_source(name)) AS dropped FROM rag.sources;
SELECT rag_drop_secret('storage');
