-- rag_extract returns what is read of a document, and tells what is left out.
\set VERBOSITY default
\set SHOW_CONTEXT never
SELECT * FROM rag_extract('---
title: Tea
team: green
---
# How to make tea

Water, *leaves*.', 'markdown');
SELECT document_type, title, content, warnings FROM rag_extract(
    '<html><head><title>A page</title></head><body><nav><a href="/">Home</a></nav>
     <h1>Prices</h1><p>Tea is 2 &euro;.</p><script>no()</script></body></html>', uri => 'p.html');
-- the type by the name, and by the bytes
SELECT document_type, title, content FROM rag_extract('name,price
Tea,2', uri => 'https://example.org/list/prices.csv?x=1');
SELECT document_type, title, content FROM rag_extract('<!doctype html><p>By its bytes.</p>');
SELECT document_type, title, content, metadata FROM rag_extract('Grüße'::bytea, 'text');
SELECT content, metadata FROM rag_extract(convert_to('Grüße aus Köln', 'LATIN1'), 'text');
-- what cannot be read
SELECT rag_extract(NULL);
SELECT rag_extract('  ');
SELECT rag_extract('x', 'slides');
SELECT rag_extract('%PDF-1.7 no more');
SELECT rag_extract('\x504b0304', 'docx');
-- rights
CREATE ROLE regress_extract;
SET ROLE regress_extract;
SELECT rag_extract('x');
RESET ROLE;
GRANT rag_reader TO regress_extract;
SET ROLE regress_extract;
SELECT content FROM rag_extract('x');
RESET ROLE;
DROP ROLE regress_extract;
