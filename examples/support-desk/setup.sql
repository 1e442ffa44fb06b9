-- Run once, as a superuser: psql -f setup.sql
\set ON_ERROR_STOP on

CREATE EXTENSION IF NOT EXISTS rag;

CREATE TABLE ticket (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text NOT NULL,
    subject text NOT NULL,
    question text NOT NULL,
    solution text,
    status text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'solved')),
    created_at timestamptz NOT NULL DEFAULT now());

SELECT rag_create_collection('tickets');
SELECT rag_create_source('tickets', 'table',
    '{"relation": "public.ticket", "titleColumn": "subject",
      "contentColumns": ["question", "solution"], "metadataColumns": ["tenant"],
      "filter": {"status": "solved"}, "sync": "trigger"}', 'tickets');
SELECT rag_sync('tickets');

-- The program logs in as this role.
CREATE ROLE desk LOGIN IN ROLE rag_reader;
GRANT SELECT, INSERT, UPDATE ON ticket TO desk;
SELECT rag_grant_collection('tickets', 'desk', 'read');

-- A tenant sees its own tickets, in the table and in searches.
ALTER TABLE ticket ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON ticket TO desk USING (tenant = current_setting('app.tenant'));
CREATE POLICY tenant ON rag.chunks AS RESTRICTIVE FOR SELECT TO desk
    USING (metadata ->> 'tenant' = current_setting('app.tenant'));
