-- Run once, as a superuser:
-- psql -v bucket=... -v endpoint=... -v key_id=... -v secret_key=... -f setup.sql
\set ON_ERROR_STOP on

CREATE EXTENSION IF NOT EXISTS rag;

SELECT rag_create_secret('wiki-bucket', :'key_id', key => 'username');
SELECT rag_create_secret('wiki-bucket', :'secret_key', key => 'password');

SELECT rag_create_collection('wiki-public'), rag_create_collection('wiki-hr');
SELECT rag_create_source('wiki-' || part, 's3',
           jsonb_build_object('bucket', :'bucket', 'endpoint', :'endpoint', 'prefix', part || '/',
                              'paths', jsonb_build_array('*.md')),
           'wiki-' || part, schedule => '*/15 * * * *', credentials => 'wiki-bucket')
FROM unnest(ARRAY['public', 'hr']) AS part;
SELECT rag_sync('wiki-' || part) FROM unnest(ARRAY['public', 'hr']) AS part;

CREATE ROLE wiki_staff IN ROLE rag_reader;
CREATE ROLE wiki_hr IN ROLE rag_reader;
SELECT rag_grant_collection('wiki-public', 'wiki_staff', 'read'),
       rag_grant_collection('wiki-public', 'wiki_hr', 'read'),
       rag_grant_collection('wiki-hr', 'wiki_hr', 'read');

-- The program logs in as this role, and becomes one of the other two.
CREATE ROLE wiki_web LOGIN NOINHERIT IN ROLE wiki_staff, wiki_hr;
