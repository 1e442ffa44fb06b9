# Chunks that Citus distributes over three workers, in two databases of the same servers: what is
# checked before, answers and evaluation, documents and chunks that are committed together, and DROP
# EXTENSION.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCitus;
use RagCluster;
use RagLlm;
use RagTest;

if (my $why = citus_is_missing())
{
	plan skip_all => $why;
}

my ($node, @workers) = citus_nodes('three', 3);

sub rows { return $node->safe_psql($_[1] // 'postgres', $_[0]) }

# -- two databases
for my $on ($node, @workers)
{
	$on->safe_psql('postgres', 'SET citus.enable_create_database_propagation = off;
		CREATE DATABASE second');
	$on->safe_psql('second', 'CREATE EXTENSION citus');
}
rows("SELECT citus_set_coordinator_host('127.0.0.1', " . $node->port . ')', 'second');
rows("SELECT citus_add_node('127.0.0.1', " . $_->port . ')', 'second') for @workers;
rows('CREATE EXTENSION rag', 'second');
for my $database ('postgres', 'second')
{
	rows(qq{SELECT rag_create_collection('kb');
		SELECT count(*) FROM generate_series(1, 60) i, LATERAL rag_add_document(
			format('Report %s of $database tells of %s', i,
				(ARRAY['whales', 'reefs', 'tides'])[1 + i % 3]),
			'report ' || i, collection => 'kb', metadata => jsonb_build_object('n', i % 3))},
		$database);
}
my $search = q{SELECT m, rank, uri, round(score::numeric, 9), left(content, 40)
	FROM unnest(ARRAY['vector', 'keyword', 'hybrid']) m,
		LATERAL rag_search('report 17 of whales', 'kb', top_k => 1, mode => m) ORDER BY m, rank};
my %on_one = map { $_ => rows($search, $_) } 'postgres', 'second';
my $evaluation = q{SELECT * FROM rag_evaluate('{"a": "report 17 of whales", "b": "reefs"}', 'kb',
	'{"a": {"report 17": 1}, "b": {"report 13": 1, "report 16": 1}}', top_k => 30)};
my $evaluated = rows($evaluation);

# so many that there is a vector index; all have the same text, which is embedded once
my $notes = temp_folder();
write_file("$notes/note-$_.txt", 'Backups are taken every night.') for 1 .. 3001;
rows(q{SELECT rag_create_collection('notes')});
create_folder_source($node, 'notes', $notes, 'notes');
sync_ok($node, 'notes', 'a source with many documents is synced');

# -- what is checked before
my $before = 'the model of a worker is checked';
configure($workers[1], 'rag.model_dir', '/nowhere');
my $refused = run_sql($node, 'SELECT rag_distribute()');
error_like($refused, '55000', 'chunks cannot be distributed: 1 problem', undef, $before);
like($refused->{err}, qr/the model of node 127\.0\.0\.1:\d+ does not answer: .*nowhere/,
	'in the words of its server');
configure($workers[1], 'rag.model_dir');

# -- distributed
rows('SELECT rag_distribute()');
is(rows('SELECT count(*) FROM rag_distribution()', 'second'),
	'0', 'the other database is not distributed');
rows(q{SELECT rag_distribute('collection')}, 'second');
is(rows('SELECT count(*) FROM rag_distribution() WHERE shards > 0 AND problem IS NULL'),
	'3', 'over three nodes');
is(rows($search, $_), $on_one{$_}, "database $_ has the answers of one server")
  for 'postgres', 'second';
is(rows($evaluation), $evaluated, 'an evaluation has the same figures');
is(rows(q{SELECT current_setting('session_preload_libraries')}), 'rag',
	'workers load the library when a session begins');

# -- settings of a scan reach the shards
$workers[0]->safe_psql('postgres', 'ALTER SYSTEM SET log_min_duration_statement = 0');
$workers[0]->reload;
is(rows(q{SELECT count(*) FROM rag_search('backups', 'notes', mode => 'vector', top_k => 20)}),
	'1', 'the vector indexes of shards are searched: equal texts are one result');
$workers[0]->safe_psql('postgres', 'ALTER SYSTEM RESET log_min_duration_statement');
$workers[0]->reload;
like(
	slurp_file($workers[0]->logfile),
	qr/rag_internal\.scan_settings\(partition, 'rag\.iterative_scan=/,
	'a worker is told how to scan its index');

# -- an answer
my $origin = RagLlm::origin('good');
rows("ALTER SYSTEM SET rag.allowed_private_hosts = '127.0.0.1'");
$node->reload;
rows(qq{SELECT rag_create_model('good', 'chat', 'openai',
	'{"base_url": "$origin/v1", "model": "tiny"}')});
is( rows(q{SELECT message, context_used #>> '{0,uri}' FROM rag_answer('report 17 of whales',
		collection => 'kb', top_k => 2, model => 'good')}),
	'Keys are rotated monthly [1].|'
	  . rows(q{SELECT uri FROM rag_search('report 17 of whales', 'kb', top_k => 2) LIMIT 1}),
	'rag_answer answers from what a search finds');

# -- other functions
is(rows(q{SELECT key, value, chunks FROM rag_facets('whales', 'kb', '{n}') ORDER BY chunks DESC
	LIMIT 1}), 'n|0|20', 'rag_facets counts');
is(rows(q{SELECT count(*) FROM rag_find('report 17', 'kb', top_k => 3)}), '3', 'rag_find finds');
is( rows(q{SELECT string_agg(rank::text, ' ' ORDER BY rank) FROM rag_search('whales', 'kb',
		top_k => 3, settings => '{"offset": 5}')}),
	'6 7 8', 'results are returned page by page');

# -- without documents DROP EXTENSION asks for nothing, with documents for CASCADE
error_like(
	run_sql($node, 'DROP EXTENSION rag'),
	'2BP01', 'because collections contain documents',
	'CASCADE', 'DROP EXTENSION is refused while there are documents');
rows('DROP EXTENSION rag CASCADE');
for my $on ($node, @workers)
{
	is( $on->safe_psql('postgres', q{SET citus.override_table_visibility = off;
			SELECT (SELECT count(*) FROM pg_extension WHERE extname = 'rag'),
				(SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
				 WHERE n.nspname IN ('rag', 'rag_internal')),
				(SELECT count(*) FROM pg_dist_shard)}),
		'0|0|0',
		'nothing is left on ' . $on->name);
}
rows(q{CREATE EXTENSION rag; SELECT rag_create_collection('kb');
	SELECT rag_add_document('Whales sing.', 'whale', collection => 'kb')});
rows('SELECT rag_distribute()');
is(rows(q{SELECT uri FROM rag_search('whales', 'kb')}), 'whale', 'and all of it can begin again');
is(rows($search, 'second'), $on_one{second}, 'the other database is as it was');
rows('SELECT rag_undistribute()', 'second');
is(rows($search, 'second'), $on_one{second}, 'also when its chunks are back');
is(rows(q{SELECT current_setting('session_preload_libraries')}, 'second'), '',
	'then sessions load no library');

done_testing();
