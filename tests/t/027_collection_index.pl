# A sync creates an index on the embeddings of a collection once it has enough chunks. Later syncs
# keep it up to date.
use strict;
use warnings;
use Test::More;
use RagCluster;

my $node = rag_node('collection_index', conf => 'autovacuum = off');
my $folder = temp_folder();
# all have the same text, which is embedded once
write_file("$folder/note-$_.txt", 'Backups are taken every night.') for 1 .. 2990;
create_folder_source($node, 'notes', $folder);

my $status = 'SELECT chunk_count, has_vector_index FROM rag_collection_status(\'default\')';
my $check = q{SELECT count(*) FROM rag_check_index('rag_internal.rag_kb_default_embedding_idx')};
my $vectors = q{SELECT vectors FROM rag_hnsw_info('rag_internal.rag_kb_default_embedding_idx')};

sync_ok($node, 'notes', 'a sync of fewer than 3,000 chunks succeeds');
is(ask($node, $status), '2990|f', 'a sync of fewer than 3,000 chunks creates no index');

write_file("$folder/note-$_.txt", 'Backups are taken every night.') for 2991 .. 3000;
write_file("$folder/keys.txt", 'Signing keys are rotated twice a year.');
sync_ok($node, 'notes', 'a sync that exceeds 3,000 chunks succeeds');
is(ask($node, $status), '3001|t', 'a sync that exceeds 3,000 chunks creates an index');
is(ask($node, $check), 0, 'the new index is correct');

my $index = ask($node, q{SELECT 'rag_internal.rag_kb_default_embedding_idx'::regclass::oid});
write_file("$folder/laptops.txt", 'Laptops are encrypted.');
unlink "$folder/note-$_.txt" for 1 .. 500;
sync_ok($node, 'notes', 'a sync that adds and removes documents succeeds');
is(ask($node, q{SELECT 'rag_internal.rag_kb_default_embedding_idx'::regclass::oid}),
	$index, 'a sync that adds and removes documents keeps the index');
ask($node, 'VACUUM rag_internal.rag_kb_default');
is(ask($node, $check), 0, 'the index is correct after the sync');
is(ask($node, $vectors), 2502, 'the index contains exactly the rows of the table');
is( ask($node,
		q{SELECT uri LIKE '%laptops.txt' FROM rag_search('is my laptop encrypted?', top_k => 1)}),
	't',
	'a search by index finds the added document');
is(ask($node, q{SELECT count(DISTINCT uri) FROM rag_search('backups', top_k => 5000,
		settings => '{"distinct_text": false}')}),
	2502, 'a search by index finds all documents');

# -- a concurrent rebuild is no problem, and what it has left when it was interrupted is one
my $problems = q{SELECT object, remedy FROM rag_status() WHERE object LIKE 'index %'};
my $writer = session($node);
$writer->query('BEGIN; LOCK TABLE rag_internal.rag_kb_default IN ROW EXCLUSIVE MODE');
my $rebuild = start_sql($node, 'REINDEX INDEX CONCURRENTLY
    rag_internal.rag_kb_default_embedding_idx');
my $backend = $rebuild->await_locked;
is( ask($node, q{SELECT indexrelid::regclass FROM pg_index WHERE NOT indisvalid}),
	'rag_internal.rag_kb_default_embedding_idx_ccnew',
	'an index that is rebuilt has an invalid one beside it');
is(ask($node, $problems), '', 'rag_status has no row for an index that is rebuilt');
ask($node, "SELECT pg_cancel_backend($backend)");
$rebuild->finish;
is( ask($node, $problems),
	'index rag_internal.rag_kb_default_embedding_idx_ccnew'
	  . '|DROP INDEX rag_internal.rag_kb_default_embedding_idx_ccnew;',
	'rag_status tells what an interrupted rebuild has left');
$writer->query('COMMIT');
ask($node, 'DROP INDEX rag_internal.rag_kb_default_embedding_idx_ccnew');
is(ask($node, $problems), '', 'the remedy heals it');

done_testing();
