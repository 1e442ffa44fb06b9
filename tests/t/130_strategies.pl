# Collections that share a partition: sessions that create, join and drop it at once, a damaged
# index of all, kill -9, and a dump.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;

use constant PAGE => 8192;

my $node = rag_node('strategies');
$node->safe_psql(
	'postgres', q{
	SELECT rag_create_retriever('shared', '{"storageConfig": {"indexStrategy":
		{"mode": "fixed"}}}');
	SELECT rag_create_retriever('rolling', '{"storageConfig": {"indexStrategy":
		{"mode": "rolling", "rollingStep": 4}}}');
	SELECT rag_create_collection(c, retriever => 'shared') FROM unnest('{a,b,c,d}'::text[]) c});

sub add
{
	my ($collection, $text) = @_;
	return "SELECT success FROM rag_add_document('$text', 'doc', collection => '$collection')";
}

sub awaits_lock
{
	my ($what) = @_;
	await($what,
		sub { ask($node, 'SELECT count(*) FROM pg_locks WHERE NOT granted') ne '0' });
	return;
}

sub places
{
	return ask($node, q{SELECT string_agg(c.name || ':' || coalesce(c.partition, '-') || ':'
			|| (SELECT count(*) FROM rag.chunks k WHERE k.collection = c.name), ' ' ORDER BY c.name)
		FROM rag.collections c WHERE c.name = ANY ('{a,b,c,d}')});
}

# -- one partition, two collections that need it first
my $first = session($node);
$first->query('BEGIN');
is($first->query(add('a', 'Apples are red.')), 't', 'a session creates the partition');
my $second = start_sql($node, add('b', 'Bananas are yellow.'));
awaits_lock('the other session waits for the partition');
my $limited = "SET statement_timeout = '20s'; SELECT count(*) FROM rag_search('fruit')";
is(run_sql($node, $limited)->{out},
	'0', 'searches do not wait meanwhile');
$first->query('COMMIT');
is($second->finish->{out}, 't', 'the other session joins the partition');
is(places(), 'a:rag_documents:1 b:rag_documents:1 c:-:0 d:-:0', 'both are in one partition');

# -- a session that joins while the last collection is dropped
$node->safe_psql('postgres', "SELECT rag_drop_collection('b')");
$first->query('BEGIN');
$first->query("SELECT rag_drop_collection('a')");
$second = start_sql($node, add('c', 'Cherries are dark.'));
awaits_lock('the session that joins waits for the end of the drop');
$first->query('COMMIT');
is($second->finish->{out}, 't', 'it creates the partition again');
is(places(), 'c:rag_documents:1 d:-:0', 'the partition has the chunks of the new collection');

# -- a collection that is dropped while others write to it
$first->query('BEGIN');
$first->query(add('c', 'Currants are black.'));
$first->query(q{SELECT rag_add_document('More.', 'more', collection => 'c')});
$second = start_sql($node, "SELECT rag_drop_collection('c')");
awaits_lock('the drop waits for the writer');
$first->query('COMMIT');
is($second->finish->{rc}, 0, 'a collection is dropped after its writers');
is(ask($node, q{SELECT count(*) FROM rag.chunks WHERE collection = 'c'}),
	'0', 'no chunk is left');
$node->safe_psql('postgres', q{SELECT rag_create_collection('c', retriever => 'shared')});
$node->safe_psql('postgres', add('c', 'Cherries are dark.'));

# -- a session that joins what another one rolls back
$node->safe_psql('postgres', q{SELECT rag_drop_collection('c');
	SELECT rag_create_collection(c, retriever => 'shared') FROM unnest('{a,b,c}'::text[]) c});
$first->query('BEGIN');
$first->query(add('a', 'Apples are red.'));
$second = start_sql($node, add('b', 'Bananas are yellow.'));
awaits_lock('the other session waits');
$first->query('ROLLBACK');
is($second->finish->{out}, 't', 'after a rollback the other session creates the partition');
is(places(), 'a:-:0 b:rag_documents:1 c:-:0 d:-:0', 'and only its collection is there');

# -- many at once
my @sessions = map {
	start_sql($node, "SELECT rag_create_collection('many-$_', retriever => 'rolling');
		SELECT success FROM rag_add_document('Text $_ of many.', 'doc', collection => 'many-$_')")
} 1 .. 8;
@sessions = map { $_->finish } @sessions;
is(join(' ', map { $_->{rc} } @sessions), join(' ', (0) x 8), 'sessions create partitions at once')
  or diag(map { $_->{err} } @sessions);
is( ask($node, q{SELECT bool_and(partition = 'rag_index_' || (serial - 1) / 4 * 4
			AND (SELECT count(*) = 1 FROM rag.chunks k
				WHERE k.collection = c.name AND k.partition = c.partition))
		FROM rag.collections c WHERE name LIKE 'many-%'}),
	't', 'each collection is where its number belongs, with its own chunk');

# -- kill -9
crash($node);
is(places(), 'a:-:0 b:rag_documents:1 c:-:0 d:-:0', 'partitions are the same after a crash');

# -- one index of all collections
$node->safe_psql('postgres', join ';', map { add($_, "The colour of $_ is red.") } qw(a c d));
$node->safe_psql(
	'postgres', q{
	INSERT INTO rag_internal.rag_documents (collection, uri, title, document_id, document_type,
		chunk_id,
		chunk_index, start_index, content, metadata, embedding, embedding_key, fetched_at,
		indexed_at, start_line, end_line)
	SELECT 'd', 'made:' || i, 'Title', md5('d' || i)::uuid, 'text', md5('c' || i)::uuid, 0, 0,
		'Red colour ' || i, '{}',
		array(SELECT random() - 0.5 + 0 * i FROM generate_series(1, 384))::rag_types.vector,
		md5('e' || i)::uuid, now(), now(), 1, 1
	FROM generate_series(1, 3500) AS i});
$node->safe_psql('postgres', add('a', 'The colour of a is still red.'));
my $indexed =
  q{SELECT string_agg(name, ' ' ORDER BY name) FROM rag_collection_status() WHERE has_vector_index};
is(ask($node, $indexed), 'a b c d', 'all collections of a large partition have its index');
my $path = $node->data_dir . '/'
  . $node->safe_psql('postgres', q{SELECT pg_relation_filepath(c.oid) FROM pg_class c
		JOIN pg_am m ON m.oid = c.relam JOIN pg_index i ON i.indexrelid = c.oid
		WHERE i.indrelid = 'rag_internal.rag_documents'::regclass AND m.amname = 'rag_bm25'});
$node->safe_psql('postgres', 'CHECKPOINT');
$node->stop;
open my $file, '+<:raw', $path or die "$path: $!";
for my $block (1 .. (-s $path) / PAGE - 1)
{
	seek $file, $block * PAGE + 100, 0;
	print $file 'damaged ' x 500;
}
close $file;
$node->start;
my ($result, $out, $err) =
  $node->psql('postgres', q{SELECT uri FROM rag_search('red colour', 'a', mode => 'hybrid')});
is($out, 'doc', 'with a damaged index a search finds the chunks of its collection');
like($err, qr/WARNING:  an index of collection "a" is corrupted/,
	'a search with a damaged index warns');
my $damaged = q{SELECT string_agg(name, ' ' ORDER BY name) FROM rag_collection_status()
	WHERE state = 'damaged'};
is(ask($node, $damaged), 'a b c d', 'all collections of the partition are damaged');
my $folder = temp_folder();
write_file("$folder/c.txt", 'The colour of c is green.');
create_folder_source($node, 'files', $folder, 'c');
sync_ok($node, 'files', 'a sync into another collection');
is($node->safe_psql('postgres', $damaged), '', 'it repairs the index');
is( ask($node, q{SELECT count(*) FROM rag_search('red colour', 'c', mode => 'keyword')}),
	'2', 'the repaired index answers searches');

# -- a dump
my @connect = ('--host', $node->host, '--port', $node->port, '--username', scalar getpwuid $>);
my $dump = temp_folder() . '/dump';
my $tables = q{SELECT count(*), md5(string_agg(t::text, chr(10) ORDER BY t::text COLLATE "C"))
	FROM (SELECT collection, partition, chunk_id FROM rag.chunks) t
	UNION ALL SELECT count(*), string_agg(format('%s %s %s %s', name, serial, partition,
		index_strategy), ', ' ORDER BY serial) FROM rag.collections};
my $before = $node->safe_psql('postgres', $tables);
command_ok([ 'pg_dump', @connect, '--format=custom', '--file', $dump, 'postgres' ], 'pg_dump');
$node->safe_psql('postgres', 'CREATE DATABASE restored TEMPLATE template0');
command_ok([ 'pg_restore', @connect, '--exit-on-error', '--dbname', 'restored', $dump ],
	'pg_restore');
is($node->safe_psql('restored', $tables), $before, 'a restored database has the same partitions');
is( $node->safe_psql(
		'restored', q{SELECT rag_create_collection('new', retriever => 'shared');
		SELECT success FROM rag_add_document('New.', 'new', collection => 'new');
		SELECT partition, serial = (SELECT max(serial) FROM rag.collections)
		FROM rag.collections WHERE name = 'new';
		SELECT count(*) FROM rag_search('red', 'a');
		SELECT count(*) FROM rag_search('red', 'new')}),
	"\nt\nrag_documents|t\n1\n1",
	'a new collection joins a restored partition');

done_testing();
