# A database moves to a newer PostgreSQL, by a dump and by pg_upgrade: the same documents, settings,
# sources, secrets and answers. RAG_TEST_NEWER_PG_CONFIG names pg_config of the newer one, with the
# extension installed.
use strict;
use warnings;
use File::Basename qw(dirname);
use File::Copy qw(copy);
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;

my $pg_config = $ENV{RAG_TEST_NEWER_PG_CONFIG};
plan skip_all => 'RAG_TEST_NEWER_PG_CONFIG is not set' if !$pg_config;
chomp(my $old_bin = `pg_config --bindir`);
chomp(my $new_bin = `'$pg_config' --bindir`);
my $newer = dirname($new_bin);

my $old = rag_node('older', conf => "max_wal_size = 4GB\n");
my $folder = write_documents(temp_folder(), 30, 6);
write_file("$folder/bread.md", "---\nteam: bakers\n---\n# Bread\n\nBread is baked early.\n");
chmod 0755, $folder;
$old->safe_psql(
	'postgres', qq{
	CREATE ROLE app LOGIN;
	GRANT rag_reader TO app;
	SELECT rag_create_secret('key', 'the value');
	SELECT rag_create_retriever('shared', '{"storageConfig": {"type": "hnsw", "metric": "l2",
		"indexStrategy": {"mode": "fixed"}}}');
	SELECT rag_create_collection('first', retriever => 'shared', chunk_size => 300);
	SELECT rag_create_collection('second', retriever => 'shared');
	SELECT rag_create_collection('third', text_config => 'simple');
	SELECT rag_add_document('Milk is fetched in the evening.', 'milk', collection => 'third');
	SELECT rag_create_source('docs', 'folder', '{"path": "$folder"}', schedule => '\@yearly');
	SELECT rag_sync('docs');
	SELECT rag_grant_collection('first', 'app', 'read');
	SELECT rag_add_document('Rolls are baked at noon.', 'rolls', 'Rolls', category => 'oven',
		tags => '{a,b}', metadata => '{"k": ["v"]}', collection => 'first');
	SELECT rag_add_document('Cakes are baked at night.', 'cakes', collection => 'second');
	SELECT rag_upsert_chunks((SELECT jsonb_agg(jsonb_build_object(
		'chunk_id', md5(i::text)::uuid, 'uri', 'made:' || i % 700, 'text', 'made word' || i,
		'embedding', (SELECT jsonb_agg(sin(i * j)) FROM generate_series(1, 384) j)))
		FROM generate_series(1, 3500) i), 'second');
	CREATE TABLE item (id int, body text, vector rag_types.vector(3));
	INSERT INTO item SELECT i, 'text ' || i, ARRAY[sin(i), cos(i), 1]::real[]
		FROM generate_series(1, 2000) i;
	CREATE INDEX item_vector ON item USING rag_hnsw (vector vector_l2_ops);
	CREATE INDEX item_body ON item USING rag_bm25 (body) WITH (text_config = 'english')}
);

# PostgreSQL 15.20 and its siblings note a version of each column in attoptions. A newer major
# version from before November 2026 does not know it, and refuses such a table.
$old->safe_psql(
	'postgres', q{SET allow_system_table_mods = on;
	UPDATE pg_attribute SET attoptions = NULL WHERE attoptions::text LIKE '%pg_attver%'});

# What a move must keep.
my $kept = q{
	SELECT to_jsonb(c) FROM rag.collections c ORDER BY name;
	SELECT to_jsonb(r) FROM rag.retrievers r ORDER BY name;
	SELECT to_jsonb(s) - 'age' FROM rag.sources s ORDER BY 1;
	SELECT to_jsonb(g) FROM rag.collection_grants g ORDER BY 1;
	SELECT key_id, in_file, encrypted_values FROM rag_secret_keys();
	SELECT name, state, document_count, chunk_count, has_vector_index FROM rag_collection_status()
		ORDER BY name;
	SELECT uri, score FROM rag_search('when is bread baked', 'default', top_k => 3);
	SELECT uri, score FROM rag_search('bread', 'default', mode => 'keyword',
		filter => '{"team": "bakers"}');
	SELECT uri, score FROM rag_search('word3 cakes', 'second', mode => 'hybrid', top_k => 3);
	SELECT id FROM item ORDER BY vector <-> '[0.5,0.5,1]', id LIMIT 5;
	SELECT id, body <@> 'text 77' FROM item ORDER BY body <@> 'text 77' LIMIT 3;
	SELECT indexdef FROM pg_indexes
		WHERE schemaname LIKE 'rag%' AND tablename ~ '_kb_|^rag_documents'
		ORDER BY 1};
my %before = (
	kept => $old->safe_psql('postgres', $kept),
	contents => join("\n", map { stored($old, $_) } qw(default first second third)));
like($before{kept}, qr/^bread|bread\.md\|/m, 'the older server answers');

# Checks that a cluster has what the older one had.
sub has_moved
{
	my ($node, $how) = @_;
	my $sql = sub { return $node->safe_psql('postgres', @_) };
	is($sql->($kept), $before{kept}, "$how: settings, status, indexes and answers are the same");
	is(join("\n", map { stored($node, $_) } qw(default first second third)),
		$before{contents}, "$how: documents and chunks are the same");
	is( $sql->(q{SELECT string_agg(i.indexrelid::regclass::text || ': ' || p::text, chr(10))
			FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
			JOIN pg_am a ON a.oid = c.relam AND a.amname IN ('rag_hnsw', 'rag_bm25')
				AND c.relkind = 'i', rag_check_index(c.oid) p}),
		'',
		"$how: the indexes are complete");
	$sql->(q{SELECT rag_sync('docs')});
	is( $sql->(
			q{SELECT documents_unchanged, chunks_embedded FROM rag.runs
				ORDER BY run_id DESC LIMIT 1}),
		'31|0',
		"$how: a sync changes nothing");
	is( $sql->(q{SELECT action FROM rag_add_document('Tea is made at five.', 'tea',
			collection => 'second')}),
		'added',
		"$how: documents are added");
	is($sql->(q{SELECT uri FROM rag_search('tea', 'second', top_k => 1)}),
		'tea', "$how: a new document is found");
	is( $sql->(q{SELECT string_agg(problem, ' ') FROM rag_status()
			WHERE severity IN ('error', 'warning') AND problem !~ '^rag.scheduler is off'}),
		'',
		"$how: the status is good");
	same_cluster(witness($node), $how);
	return;
}

sub newer_node
{
	my ($name, @initdb) = @_;
	return RagTest::new_node($name, install_path => $newer, initdb => \@initdb);
}

sub copy_key
{
	my ($node) = @_;
	my $folder = $node->data_dir . '/pg_rag';
	-d $folder or mkdir $folder, 0700 or die "cannot create $folder: $!";
	copy($old->data_dir . '/pg_rag/secret.key', "$folder/secret.key") or die "cannot copy: $!";
	chmod 0600, "$folder/secret.key";
	return;
}

# -- a dump by the newer pg_dump
my $dump = temp_folder() . '/dump';
my $node = newer_node('newer');
copy_key($node);
$node->start;
$node->safe_psql('postgres', 'CREATE ROLE app LOGIN');
my ($from, $to) =
  map { [ '--host', $_->host, '--port', $_->port, '--username', scalar getpwuid $> ] } $old, $node;
command_ok([ "$new_bin/pg_dump", @$from, '-Fc', '-f', $dump, 'postgres' ], 'pg_dump');
command_ok([ "$new_bin/pg_restore", @$to, '--exit-on-error', '-d', 'postgres', $dump ],
	'pg_restore');
has_moved($node, 'dump');
$node->stop;

# -- pg_upgrade
my $upgraded = newer_node('upgraded', '--no-data-checksums');
$old->stop;
my $working = temp_folder();
chdir $working or die "cannot change to $working: $!";
command_ok(
	[
		"$new_bin/pg_upgrade", '--old-bindir', $old_bin, '--new-bindir', $new_bin,
		'--old-datadir', $old->data_dir, '--new-datadir', $upgraded->data_dir,
		'--old-port', $old->port, '--new-port', $upgraded->port, '--socketdir', $upgraded->host
	],
	'pg_upgrade');
copy_key($upgraded);
$upgraded->start;
has_moved($upgraded, 'pg_upgrade');
$upgraded->stop;

done_testing();
