# A sync gives a collection its index on the embeddings once it has enough chunks, and later syncs
# keep it up to date.
use strict;
use warnings;
use Test::More;
use RagCluster;

my $node = rag_node('collection_index', conf => 'autovacuum = off');
my $folder = temp_folder();
# the same text in each: embedded once
write_file("$folder/note-$_.txt", 'Backups are taken every night.') for 1 .. 2990;
create_folder_source($node, 'notes', $folder);

my $status = 'SELECT chunk_count, has_vector_index FROM rag_collection_status(\'default\')';
my $check = q{SELECT count(*) FROM rag_index_check('rag.rag_kb_default_embedding_idx')};
my $vectors = q{SELECT vectors FROM rag_index_info('rag.rag_kb_default_embedding_idx')};

sync_ok($node, 'notes', 'a sync of too few chunks');
is(ask($node, $status), '2990|f', 'makes no index');

write_file("$folder/note-$_.txt", 'Backups are taken every night.') for 2991 .. 3000;
write_file("$folder/keys.txt", 'Signing keys are rotated twice a year.');
sync_ok($node, 'notes', 'a sync that brings enough');
is(ask($node, $status), '3001|t', 'makes one');
is(ask($node, $check), 0, 'which is sound');

my $index = ask($node, q{SELECT 'rag.rag_kb_default_embedding_idx'::regclass::oid});
write_file("$folder/laptops.txt", 'Laptops are encrypted.');
unlink "$folder/note-$_.txt" for 1 .. 500;
sync_ok($node, 'notes', 'a sync that adds and removes');
is(ask($node, q{SELECT 'rag.rag_kb_default_embedding_idx'::regclass::oid}), $index, 'keeps the index');
ask($node, 'VACUUM rag.rag_kb_default');
is(ask($node, $check), 0, 'which is sound');
is(ask($node, $vectors), 2502, 'and has the rows that are there');
is(ask($node, q{SELECT uri LIKE '%laptops.txt' FROM rag_search('is my laptop encrypted?', top_k => 1)}), 't', 'it finds what was added');
is(ask($node, q{SELECT count(DISTINCT uri) FROM rag_search('backups', top_k => 5000)}), 2502, 'and everything there is');

done_testing();
