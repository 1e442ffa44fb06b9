-- Sources: where the documents of a collection come from.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'

-- messages of a sync depend on its duration
SET client_min_messages = warning;

-- all errors of a definition are reported at once
SELECT rag_create_source('docs', 'folder',
    '{"pth": "/srv/docs", "paths": ["*.md", 3, ""], "excludePaths": "drafts/",
    "recursive": true}'); :sqlstate
SELECT rag_create_source('docs', 'folder', '{}'); :sqlstate
SELECT rag_create_source('docs', 'folder', '[]'); :sqlstate
SELECT rag_create_source('docs', 'folder', '{"path": "srv/docs"}'); :sqlstate
SELECT rag_create_source('docs', 'folder', '{"path": "/srv/../etc"}'); :sqlstate
SELECT rag_create_source('docs', 'folder', '{"path": 7}'); :sqlstate
SELECT rag_create_source('docs', 'folder', '{"path": ""}'); :sqlstate
SELECT rag_create_source('docs', 'markdown', '{"path": "/srv/docs/a.md"}'); :sqlstate
SELECT rag_create_source('docs', 'markdown', '{"uri": "docs/a.md"}'); :sqlstate
-- static
SELECT rag_create_source('docs', 'static', '{}'); :sqlstate
SELECT rag_create_source('docs', 'static',
    '{"endpoints": ["https://me:secret@example.org/a.md", "ftp://example.org/a.md", "/srv/../a.md",
    "file://host/a.md", "a.md", 7]}'); :sqlstate
SELECT rag_create_source('docs', 'static',
    '{"endpoints": ["https://example.org/a.md", "https://EXAMPLE.org:443/a.md#b"]}'); :sqlstate
-- website
SELECT rag_create_source('docs', 'website',
    '{"url": "https://me:secret@example.org/", "depth": -1, "maxPages": 100000, "delay": "1 s",
    "sameSite": "world", "sitemap": 1, "pages": 5}'); :sqlstate

-- git
SELECT rag_create_source('docs', 'git', '{}'); :sqlstate
SELECT rag_create_source('docs', 'git', '{"repositoryURL": "http://example.org/a.git"}'); :sqlstate
SELECT rag_create_source('docs', 'git', '{"repositoryURL": "ssh://git@example.org:a/b"}'); :sqlstate
SELECT rag_create_source('docs', 'git', '{"repositoryURL": "https://example.org/a.git",
    "hostKeys": ["ssh-ed25519 AAAA"]}'); :sqlstate
SELECT field, problem, hint FROM rag_validate_source('git', jsonb_build_object(
    'repositoryURL', 'git@example.org:a.git', 'lfs', false, 'submodules', true, 'hostKeys', ARRAY[
        'example.org ssh-ed25519 '
            'AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl',
        'SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU', 'ssh-ed25519 AAAA']));
SELECT count(*) FROM rag_validate_source('git',
    '{"repositoryURL": "ssh://git@example.org:2222/a.git"}');
SELECT rag_create_source('docs', 'git',
    '{"repositoryURL": "https://me:secret@example.org/a.git"}'); :sqlstate
SELECT rag_create_source('docs', 'git',
    '{"repositoryURL": "https://example.org/a.git", "branch": "--upload-pack=x",
    "commit": "HEAD"}'); :sqlstate

SELECT rag_create_source('docs', 'git',
    '{"repositoryURL": "https://[::bad/x", "paths": ["docs/", "[z-a]", "{a"]}'); :sqlstate
SELECT rag_create_source('docs', 'git',
    '{"repositoryURL": "https://example.org:99999/x"}'); :sqlstate
-- git's rules for the names of branches
SELECT branch, (SELECT problem
    FROM rag_validate_source('git', jsonb_build_object('repositoryURL', 'https://example.org/a',
    'branch', branch)))
FROM unnest('{main,release/2.1,main/,a//b,main.lock,"a@{b",@,.a,a..b,a b,-a,HEAD,/a,a.}'::text[])
    AS branch;
-- repositories at any port and address
SELECT url, (SELECT problem
    FROM rag_validate_source('git', jsonb_build_object('repositoryURL', url)))
FROM unnest('{https://example.org:8443/a.git,"https://[2606:4700::1111]:443/a.git",
    https://example.org/,https://example.org/a#b,https://exa$mple.org/a,https://e\\a/b}'::text[])
    AS url;
-- credentials for several servers are rejected, as a run would
SELECT rag_create_secret('token', 'value');
SELECT rag_create_source('docs', 'static',
    '{"endpoints": ["https://a.example/1", "https://b.example/2"]}',
    credentials => 'token'); :sqlstate
SELECT count(*)
    FROM rag_validate_source('static',
    '{"endpoints": ["https://a.example/1", "https://a.example/2"]}', credentials => 'token');
-- credentials are not sent over http; tests/t/069 names allowed hosts
SELECT rag_create_source('docs', 'website', '{"url": "http://wiki.example/"}',
    credentials => 'token'); :sqlstate
-- addresses that runs refuse are warnings: the setting may change
SELECT * FROM rag_validate_source('static', '{"endpoints": ["https://127.0.0.2/x",
    "http://169.254.169.254/x", "https://localhost/x", "http://10.1.2.3/x", "https://[::1]/x",
    "http://2130706433/x", "https://example.org/x"]}');
SELECT field, problem, severity FROM rag_validate_source('website', '{"url": "http://10.1.2.3/"}');
SELECT field, problem, severity
    FROM rag_validate_source('git', '{"repositoryURL": "https://192.168.0.1/a"}');
SELECT rag_create_source('private', 'website', '{"url": "http://10.1.2.3/"}',
    schedule => '@yearly');
SELECT resource_ready, c ->> 'message' AS message
    FROM rag.sources, jsonb_array_elements(conditions) AS c
    WHERE name = 'private' AND c ->> 'type' = 'ResourceReady';
SELECT rag_drop_source('private');
-- names that no resolver finds
SELECT url, (SELECT problem FROM rag_validate_source('website', jsonb_build_object('url', url)))
FROM unnest(ARRAY['https://-bad-.com/', 'https://a..b/', 'https://' || repeat('a', 64) || '.com/',
    'https://a-.b_c.example/', 'www.example.org']) AS url;
-- commits and branches that no repository has
SELECT field, problem, hint FROM rag_validate_source('git',
    jsonb_build_object('repositoryURL', 'https://example.org/a', 'commit', repeat('0', 40)));
SELECT field, problem, hint FROM rag_validate_source('git',
    jsonb_build_object('repositoryURL', 'https://example.org/a', 'commit', repeat('a', 41)));
SELECT field, problem, hint FROM rag_validate_source('git',
    jsonb_build_object('repositoryURL', 'https://example.org/a', 'commit', repeat('a', 64)));
SELECT field, problem, hint FROM rag_validate_source('git',
    '{"repositoryURL": "https://example.org/a", "branch": "refs/heads/main"}');
-- patterns that match nothing
SELECT field, problem, hint FROM rag_validate_source('git',
    '{"repositoryURL": "https://example.org/a", "paths": ["!", "../x", "*.md"],
    "excludePaths": ["/", "a/./b"]}');
SELECT field, problem, hint FROM rag_validate_source('folder',
    '{"path": "/", "paths": ["!docs/"], "excludePaths": ["!docs/", "!*.md"]}');
-- a key that is a part of the right one
SELECT field, problem, hint FROM rag_validate_source('git', '{"url": "https://example.org/a"}');
SELECT rag_drop_secret('token');
-- patterns of websites
SELECT field, problem
    FROM rag_validate_source('website',
    '{"url": "https://example.org", "include": ["[z-a]"], "exclude": ["a["]}');

-- kinds
SELECT rag_create_source('docs', 'ftp', '{}'); :sqlstate
SELECT rag_create_source('docs', 'table', '{"relation": "t"}'); :sqlstate

-- names, collections, times
SELECT rag_create_source('Docs', 'folder', '{"path": "/srv"}'); :sqlstate
SELECT rag_create_source('docs/', 'folder', '{"path": "/srv"}'); :sqlstate
SELECT rag_create_source('docs', 'folder', '{"path": "/srv"}', collection => 'nowhere'); :sqlstate
SELECT rag_create_source('docs', 'folder', '{"path": "/srv"}', timeout => '0'); :sqlstate
SELECT rag_create_source('docs', 'folder', '{"path": "/srv"}', timeout => '-1 hour'); :sqlstate

-- rejected statements have created nothing
SELECT count(*) FROM rag.sources;

-- a correct definition that was never run
\set handbook `echo "$RAG_TEST_FILES/handbook"`
\set spec '{"path": "' :handbook '", "paths": ["*.md", "guides/"], "excludePaths": ["drafts/"]}'
SELECT rag_create_source('handbook', 'folder', :'spec');
SELECT rag_create_source('handbook', 'folder', :'spec'); :sqlstate
SELECT name, kind, collection, spec - 'path' AS spec, owner, timeout, phase, indexing, error,
    last_indexed, successful_run_count, error_run_count,
    documents_processed, generation, observed_generation, last_run_id
FROM rag.sources \gx

-- a run is executed by another process, which cannot see an uncommitted source
BEGIN;
SELECT rag_create_source('later', 'folder', :'spec');
SELECT rag_sync('later'); :sqlstate
ROLLBACK;
SELECT rag_sync('nowhere'); :sqlstate
SELECT * FROM rag_sync_all('nowhere'); :sqlstate

-- a sync reads the files that match the patterns
SELECT rag_sync('handbook') AS run \gset
SELECT right(uri, -length('file://' || :'handbook')) AS path, title, document_type, status,
chunk_count, metadata FROM rag.documents ORDER BY uri COLLATE "C";
SELECT phase, trigger, attempt, documents_added, documents_updated, documents_deleted,
    documents_unchanged, documents_failed, files_skipped,
    chunks_written, chunks_embedded, chunks_reused, commit, errors
FROM rag.runs WHERE run_id = :run \gx
SELECT rank, score BETWEEN 0.5 AND 0.7 AS similar, title
FROM rag_search('how do I rotate the signing keys?', top_k => 1, mode => 'vector');
SELECT rank, title FROM rag_search('somebody deleted rows by accident, what now?', top_k => 1);
SELECT rank, title FROM rag_search('how many days of holiday do I have?', top_k => 1);

-- a second sync changes nothing
SELECT rag_sync('handbook') AS run \gset
SELECT phase, documents_added, documents_updated, documents_deleted, documents_unchanged,
chunks_written, chunks_embedded FROM rag.runs WHERE run_id = :run;
SELECT phase, indexing, documents_processed, successful_run_count, error_run_count,
    last_indexed IS NOT NULL AS was_indexed, last_run_id = :run AS is_last
FROM rag.sources;

-- the same documents in another collection have other ids, and their embeddings are reused
SELECT rag_create_collection('copy');
SELECT rag_create_source('again', 'folder', :'spec', collection => 'copy');
SELECT rag_sync('again') AS run \gset
SELECT documents_added, chunks_written, chunks_embedded, chunks_reused FROM rag.runs
WHERE run_id = :run;

-- single files
\set spec '{"uri": "file://' :handbook '/backups.md"}'
SELECT rag_create_source('one', 'markdown', :'spec', collection => 'copy');
SELECT rag_sync('one') AS run \gset
SELECT title, source FROM rag.documents WHERE source = 'one';

-- an unreadable folder: the waiting command gets the error of the run
SELECT rag_create_source('missing', 'folder', '{"path": "/nonexistent/docs"}');
\set spec '{"path": "' :handbook '/backups.md"}'
SELECT rag_create_source('a-file', 'folder', :'spec');
\set spec '{"uri": "' :handbook '/guides"}'
SELECT rag_create_source('a-folder', 'markdown', :'spec');
\set VERBOSITY sqlstate
SELECT rag_sync('missing');
SELECT rag_sync('a-file');
SELECT rag_sync('a-folder');
\set VERBOSITY default
SELECT source, phase, error ->> 'sqlstate' AS sqlstate, replace(error ->> 'message', :'handbook',
    '...') AS message, error ->> 'hint' AS hint
FROM rag.runs, jsonb_array_elements(errors) AS error
WHERE source IN ('missing', 'a-file', 'a-folder') ORDER BY run_id;
SELECT name, phase, error, replace(array_to_string(errors, '; '), :'handbook', '...') AS errors,
    error_run_count FROM rag.sources WHERE phase = 'Failed' ORDER BY name;

-- a collection that waits for a rebuild, or is of another model, is told, and is no error
SELECT rag_create_collection('ailing');
SELECT success FROM rag_add_document('A text.', 'a', collection => 'ailing');
\set spec '{"uri": "' :handbook '/backups.md"}'
SELECT * FROM rag_validate_source('markdown', :'spec', collection => 'ailing');
SELECT rag_alter_collection('ailing', chunk_size => 300);
SELECT rag_create_source('stale', 'markdown', :'spec', 'ailing', suspend => true);
SELECT * FROM rag_validate_source('markdown', :'spec', collection => 'ailing');
SELECT rag_create_source('moves', 'markdown', :'spec', suspend => true);
SELECT rag_alter_source('moves', collection => 'ailing');
-- a row of errors comes first
SELECT field, severity
FROM rag_validate_source('markdown', :'spec', '@never', collection => 'ailing');
CALL rag_rebuild_collection('ailing');
SELECT * FROM rag_validate_source('markdown', :'spec', collection => 'ailing');
UPDATE rag_internal.collection SET model = 'some-other-model' WHERE name = 'ailing';
SELECT rag_create_source('other', 'markdown', :'spec', 'ailing', suspend => true);
SELECT * FROM rag_validate_source('markdown', :'spec', collection => 'ailing');
SELECT name, c ->> 'status' AS resource_ready
FROM rag.sources, jsonb_array_elements(conditions) AS c
WHERE name IN ('stale', 'other') AND c ->> 'type' = 'ResourceReady' ORDER BY name;
SELECT count(*) FROM rag_validate_source('markdown', :'spec', collection => 'no such one')
WHERE severity = 'warning';
SELECT rag_drop_collection('ailing', with_sources => true);

-- dropping a source with and without its documents
SELECT rag_drop_source('nowhere'); :sqlstate
SELECT rag_drop_source('nowhere', if_exists => true);
SELECT rag_drop_source('again');
SELECT count(*) > 0 AS kept FROM rag.documents WHERE former_source = 'again' AND source IS NULL;
SELECT rag_drop_source('one', keep_documents => false),
    rag_drop_source('handbook', keep_documents => false);
SELECT count(*) FROM rag.documents WHERE source IN ('one', 'handbook');
SELECT count(*) FROM rag.chunks WHERE source IN ('one', 'handbook');
SELECT rag_drop_source('missing'), rag_drop_source('a-file'), rag_drop_source('a-folder'),
    rag_drop_collection('copy');
SELECT count(*) AS sources, (SELECT count(*) FROM rag.runs) AS runs FROM rag.sources;
