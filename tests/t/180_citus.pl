# Chunks that Citus distributes over two workers: the answers of all kinds of searches are those of
# one server, before and after; documents, sources, drift, rebuilds and bundles; a worker that is
# killed; what is refused, and in which words.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCitus;
use RagCluster;
use RagTest;

if (my $why = citus_is_missing())
{
	plan skip_all => $why;
}

my ($node, @workers) = citus_nodes('citus', 2);
my $data = $ENV{RAG_TEST_DATA} // '';

sub rows { return $node->safe_psql('postgres', $_[0]) }

# Syncs the source, and returns the phase of the run.
sub sync
{
	run_sql($node, "SELECT rag_sync('papers')");
	return rows("SELECT phase FROM rag.runs WHERE source = 'papers' ORDER BY run_id DESC LIMIT 1");
}

sub refused
{
	my ($where, $statement, @like) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return error_like(run_sql($where, $statement), @like);
}

# -- what is checked before
refused($node, "SELECT rag_distribute('planet', 0, 2)",
	'55000', 'chunks cannot be distributed: 3 problem', undef, 'all problems are named at once');
like(run_sql($node, "SELECT rag_distribute('planet', 0, 2)")->{err},
	qr/by must be document.*shards must be between.*replicas must be 1/s, 'in its detail');
refused($workers[0], 'SELECT rag_distribute()',
	'55000', 'cannot be distributed', undef, 'a worker distributes nothing');
like(run_sql($workers[0], 'SELECT rag_distribute()')->{err},
	qr/connect to the coordinator/, 'and says where to connect');

# -- a collection, with texts of SciFact if there are any
my $corpus = "$data/ir/scifact/corpus.jsonl";
my @texts = -f $corpus ? texts_of($corpus, 250)
  : map { [ $_, "Title $_", paragraph($_) ] } 1 .. 200;

sub texts_of
{
	my ($file, $count) = @_;
	open my $lines, '<:raw', $file or die "$file: $!";
	my @found;
	while (defined(my $line = <$lines>) && @found < $count)
	{
		my ($id) = $line =~ /"_id": "(\d+)"/ or next;
		push @found, [ $id, undef, $line ];
	}
	return @found;
}

$node->safe_psql('postgres', q{SELECT rag_create_collection('kb');
	SELECT rag_create_collection('many', text_config => 'auto');
	CREATE TABLE text (id text, title text, body text)});
if (-f $corpus)
{
	my $file = temp_folder() . '/lines';
	open my $out, '>:raw', $file or die;
	print $out $_->[2] for @texts;
	close $out;
	chmod 0644, $file;
	$node->safe_psql('postgres', qq{
		CREATE TABLE line (line text);
		COPY line FROM '$file' WITH (FORMAT csv, DELIMITER E'\\x01', QUOTE E'\\x02');
		INSERT INTO text SELECT line::json->>'_id', line::json->>'title', line::json->>'text'
		FROM line});
}
else
{
	$node->safe_psql('postgres', "INSERT INTO text VALUES ('$_->[0]', '$_->[1]', '$_->[2]')")
	  for @texts;
}
my $added = q{SELECT count(*) FROM text,
	LATERAL rag_add_document(body, 'doc' || id, title => title, collection => 'kb',
		metadata => jsonb_build_object('n', id::bigint % 5)) a WHERE a.success};
is(rows($added), scalar @texts, 'documents are added before');
rows(q{SELECT rag_add_document(t, u, collection => 'many') FROM (VALUES
	('The whales are swimming in the deep sea.', 'en'),
	('Die Wale schwimmen im tiefen Meer und singen.', 'de'),
	('Les baleines nagent dans la mer profonde.', 'fr')) v (t, u)});

my $searches = q{
	SELECT q, m, rank, round(score::numeric, 9), chunk_id, round(keyword_score::numeric, 9),
		round(vector_score::numeric, 6), vector_rank, keyword_rank
	FROM unnest(ARRAY['vector', 'keyword', 'hybrid']) m,
		unnest(ARRAY['cell growth in cancer', 'DNA methylation', 'interleukin-6 +mice',
			'vitamin -rat', '"bone marrow"', 'prot*', '117', 'CXCR4']) q,
		LATERAL rag_search(q, 'kb', top_k => 12, mode => m)
	ORDER BY q, m, rank;
	SELECT m, rank, round(score::numeric, 9), chunk_id, md5(content)
	FROM unnest(ARRAY['vector', 'keyword', 'hybrid']) m,
		LATERAL rag_search('cell growth in cancer', 'kb', top_k => 8, mode => m,
			filter => '{"n": 3}',
			settings => '{"per_document": 1, "neighbours": 1, "mmr_lambda": 0.7}')
	ORDER BY m, rank;
	SELECT m, rank, round(score::numeric, 9), uri
	FROM unnest(ARRAY['keyword', 'hybrid']) m,
		LATERAL rag_search('baleines whale Wal', 'many', mode => m) ORDER BY m, rank;
	SELECT rank, round(score::numeric, 9), uri
	FROM rag_search('whales and cells', ARRAY['kb', 'many'], top_k => 10) ORDER BY rank;
	SELECT md5(rag_context('cell growth in cancer', 'kb', max_tokens => 500)::text);
	SELECT key, value, documents, chunks
	FROM rag_facets('cancer cells', 'kb', '{n}') ORDER BY 1, 2;
	SELECT count(*) FROM rag_duplicates('kb');
	SELECT rag_retrieve('{"knowledge_id": "kb", "query": "cells", "metadata_condition":
		{"n": 99, "m": "x"}}') -> 'warnings'};
my $on_one = rows($searches);

# -- distributed
is(rows('SELECT rag_distribute() = (SELECT sum(chunk_count) FROM rag.documents)'),
	't', 'the chunks are distributed');
is(rows('SELECT count(*), sum(shards), sum(chunks) = (SELECT count(*) FROM rag.chunks),
	bool_and(is_available), count(problem) FROM rag_distribution() WHERE NOT is_coordinator'),
	'2|2|t|t|0', 'over all nodes');
is(rows($searches), $on_one, 'searches of all kinds have the same answers and scores');
is(rows(q{SELECT count(DISTINCT node), count(*) > 3, count(problem) FROM rag_shard_indexes()}),
	'2|t|0', 'the indexes of shards are described');
is(rows('SELECT count(*) FROM rag_check_shards()'), '0', 'and have no problem');
refused($node, q{SELECT rag_check_index(indexrelid) FROM pg_index
	WHERE indrelid = 'rag_internal.rag_kb_kb'::regclass AND NOT indisunique LIMIT 1},
	'0A000', 'is distributed over servers', 'rag_check_shards', 'an index of one server is empty');
is(rows("SELECT chunk_bytes > 50000 AND index_bytes > 50000 FROM rag_collection_status('kb')"),
	't', 'sizes are those of all servers');

# -- writes
is(rows(q{SELECT action FROM rag_add_document('Whales sing in the deep sea.', 'whale',
	collection => 'kb')}), 'added', 'a document is added');
is(rows(q{SELECT uri FROM rag_search('songs of whales', 'kb', top_k => 1)}), 'whale', 'and found');
is(rows(q{SELECT action FROM rag_add_document('Whales dive in the deep sea.', 'whale',
	collection => 'kb')}), 'updated', 'and replaced');
rows(q{SELECT rag_delete_document(document_id) FROM rag.documents WHERE uri = 'whale'});
rows(q{SELECT rag_create_collection('new'); SELECT rag_add_document('One.', 'one',
	collection => 'new'); SELECT rag_drop_collection('new')});
is(rows("SELECT count(*) FROM rag.chunks WHERE collection = 'new'"), '0',
	'a collection is dropped');

# -- a source, drift, and its repair
my $folder = write_documents(temp_folder(), 30, 3);
create_folder_source($node, 'papers', $folder);
is(sync(), 'Completed', 'a source is synced');
is(rows("SELECT count(*) FROM rag.chunks WHERE source = 'papers'"), 90, 'its chunks are stored');
isnt(scalar(engine_pids($_, 'embed')), 0, 'an engine of a worker has embedded') for @workers;
unlike(slurp_file($node->logfile), qr/does not embed texts/, 'for the whole run');
rows("DELETE FROM rag.chunks WHERE source = 'papers' AND chunk_index = 2");
is(rows("SELECT drifted FROM rag_check_drift('papers')"), 't', 'drift is found');
rows("SELECT rag_sync('papers')");
is(rows("SELECT count(*) FROM rag.chunks WHERE source = 'papers'"), 90, 'and repaired');
is(rows("SELECT drifted FROM rag_check_drift('papers')"), 'f', 'and gone');

# -- rebuild, export, import
rows("SELECT rag_alter_collection('kb', title_weight => 3)");
rows("CALL rag_rebuild_collection('kb')");
isnt(rows("SELECT count(*) FROM rag_search('DNA', 'kb')"), '0', 'a collection is rebuilt');
rows("CREATE TABLE moved AS SELECT * FROM rag_export_blocks('kb')");
rows("SELECT rag_import_blocks('moved', 'copy')");
is(rows("SELECT (SELECT count(*) FROM rag.chunks WHERE collection = 'copy')
	= (SELECT count(*) FROM rag.chunks WHERE collection = 'kb')"), 't', 'a bundle is imported');
rows("SELECT rag_drop_collection('copy')");

# -- rights
rows(q{CREATE ROLE reader LOGIN IN ROLE rag_reader; CREATE ROLE silent IN ROLE rag_reader;
	SELECT rag_grant_collection('kb', 'rag_reader', 'read')});
for my $role ('reader', 'silent')
{
	is(rows("SET ROLE $role; SELECT count(*) FROM rag_search('DNA', 'kb', top_k => 3)"), '3',
		"role $role searches");
}
refused($node, 'SET ROLE reader; SELECT count(*) FROM rag.chunks', '42501',
	'permission denied to read distributed chunks', 'rag_search', 'shards know no privileges');
refused($node, 'CREATE POLICY mine ON rag.chunks USING (true)', '0A000',
	'cannot create a policy on distributed chunks', 'rag_undistribute', 'policies are refused');

# -- on a worker
for my $statement ("SELECT rag_search('x', 'kb')", "SELECT rag_add_document('x', 'y')",
	"SELECT rag_create_collection('z')", "SELECT rag_create_secret('s', 'v')")
{
	refused($workers[0], $statement, '55000', 'this server has a part of the chunks only',
		'Connect to the coordinator', "a worker refuses: $statement");
}
refused($node, q{SELECT * FROM rag_search(NULL, 'kb',
	query_embedding => (SELECT embedding FROM rag.chunks WHERE uri = 'en'))}, '55000',
	'this server has a part', 'AS MATERIALIZED', 'so does a statement that Citus sends there');

# -- a worker that is killed in the middle of a sync
write_documents($folder, 60, 3, 'b');
my $sync = start_sql($node, "SELECT rag_sync('papers')");
select undef, undef, undef, 1;
$workers[1]->stop('immediate');
$sync->finish;
is(rows("SELECT count(*) FROM rag_distribution() WHERE NOT is_available"), 1,
	'rag_distribution shows the node that is away');
isnt(run_sql($node, "SELECT rag_search('DNA', 'kb')")->{rc}, 0,
	'a search that needs the node fails');
$workers[1]->start;
sync();
is(sync(), 'Completed', 'the next run completes');
is(rows("SELECT count(*), count(DISTINCT chunk_id) FROM rag.chunks WHERE source = 'papers'"),
	'180|180', 'nothing is lost or doubled');
is(rows("SELECT drifted FROM rag_check_drift('papers')"), 'f', 'and nothing has drifted');
rows('SELECT recover_prepared_transactions()');
is($_->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts'), '0',
	'no prepared transaction is left') for $node, @workers;

# -- and back
rows("SELECT rag_drop_source('papers', keep_documents => false)");
rows("SELECT rag_alter_collection('kb', title_weight => 2)");
rows("CALL rag_rebuild_collection('kb')");
rows("SELECT rag_undistribute()");
is(rows('SELECT count(*) FROM rag_distribution()'), '0', 'the chunks are brought back');
is(rows($searches), $on_one, 'and searched as before');
is(rows(q{SELECT string_agg(polname || polpermissive, ' ' ORDER BY polname) FROM pg_policy
	WHERE polrelid = 'rag.chunks'::regclass}), 'rag_collectionsfalse rag_defaulttrue',
	'under the policies of one server');
is(rows("SET ROLE reader; SELECT count(*) > 0 FROM rag.chunks WHERE collection = 'kb'"), 't',
	'which roles may read again');

# -- by collection
rows("SELECT rag_distribute('collection')");
is(rows($searches), $on_one, 'by collection the answers are the same');
refused($node, "SELECT rag_rename_collection('kb', 'other')", '0A000', 'cannot rename collection',
	'rag_export_blocks', 'the name of a collection says where it is');

# -- a dump of the coordinator has everything
my $dump = $node->backup_dir . '.sql';
$node->command_ok([ 'pg_dump', '--no-owner', '--file', $dump, $node->connstr('postgres') ],
	'the database is dumped');
my $single = rag_node('single');
$single->safe_psql('postgres', 'DROP EXTENSION rag CASCADE');
my $lines = slurp_file($dump);
$lines =~ s/^(CREATE EXTENSION|COMMENT ON EXTENSION)[^;]*\bcitus[^;]*;//mg;
append_to_file("$dump.single", $lines);
$single->psql('postgres', undef, extra_params => [ '--quiet', '--file', "$dump.single" ]);
is($single->safe_psql('postgres', $searches), $on_one, 'and is restored into one server');

done_testing();
