-- Run once, as a superuser: psql -v folder=/srv/docs -f setup.sql
\set ON_ERROR_STOP on

CREATE EXTENSION IF NOT EXISTS rag;

SELECT rag_create_collection('documentation');
SELECT rag_create_source('documentation', 'folder', jsonb_build_object('path', :'folder'),
                         'documentation', schedule => '@hourly');
SELECT rag_sync('documentation');

CREATE ROLE docs_web LOGIN IN ROLE rag_reader;
SELECT rag_grant_collection('documentation', 'docs_web', 'read');
