# A streaming standby returns the same rows as its primary, in the same order, after every kind of
# change. Its scans continue while changes are replayed.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use Test::More;
use RagCluster;
use RagHnsw;

my $conf =
  "wal_level = replica\nmax_wal_senders = 5\nhot_standby = on\nmax_standby_streaming_delay = -1\n";
my $primary = hnsw_node('primary', conf => $conf);
$primary->safe_psql('postgres',
	'CREATE TABLE t (id int PRIMARY KEY, kind int, v rag_types.vector)');
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;

# All rows that an index returns, in order, and its statistics.
my $answers = "SELECT nearest('t', '<=>', v, 100) FROM query WHERE dimensions = 64";
my $info = "SELECT * FROM rag_hnsw_info('t_v')";

sub is_equal
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	# the WAL writer flushes the last records of a vacuum; a transaction flushes its own
	$primary->safe_psql('postgres', "SELECT pg_logical_emit_message(true, 'all', '')");
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('write'));
	is( $standby->safe_psql('postgres', $answers),
		$primary->safe_psql('postgres', $answers),
		"$name: the standby returns the same rows as the primary");
	is( $standby->safe_psql('postgres', $info),
		$primary->safe_psql('postgres', $info),
		"$name: rag_hnsw_info is the same on the standby");
	is($standby->safe_psql('postgres', "SELECT fault('t')"),
		'', "$name: the index is correct on the standby");
	return;
}

my @steps = (
	'an empty index' => 'CREATE INDEX t_v ON t USING rag_hnsw (v vector_cosine_ops)',
	'the first rows' => 'SELECT setseed(0.2); INSERT INTO t SELECT i, i % 7, point(64)
			FROM generate_series(1, 600) i',
	'a build' => 'SELECT setseed(0.3); INSERT INTO t SELECT i, i % 7, point(64)
			FROM generate_series(601, 4000) i; REINDEX INDEX t_v',
	'inserts' => 'SELECT setseed(0.4); INSERT INTO t SELECT i, i % 7, point(64)
			FROM generate_series(4001, 5000) i',
	'equal vectors' =>
	  'INSERT INTO t SELECT 10000 + i, 8, v FROM generate_series(1, 300) i, (SELECT v FROM t
			WHERE id = 1) s',
	'deletes' => 'DELETE FROM t WHERE kind = 3 OR id BETWEEN 10001 AND 10200',
	'a vacuum' => 'VACUUM t',
	'a vacuum with repair' => 'DELETE FROM t WHERE kind IN (0, 5); VACUUM t',
	'slots that are used again' => 'SELECT setseed(0.5); INSERT INTO t SELECT i, i % 7, point(64)
			FROM generate_series(5001, 6000) i',
	'updates' =>
	  'UPDATE t SET v = point(64) WHERE kind = 1; UPDATE t SET kind = 9 WHERE kind = 2; VACUUM t',
	'a build beyond maintenance_work_mem' =>
	  q{SET client_min_messages = error; SET maintenance_work_mem = '1MB'; REINDEX INDEX t_v},
	'REINDEX' => 'REINDEX INDEX t_v',
	'REINDEX CONCURRENTLY' => 'REINDEX INDEX CONCURRENTLY t_v');
while (my ($name, $statements) = splice @steps, 0, 2)
{
	$primary->safe_psql('postgres', $statements);
	# the standby returns nothing for a row that does not exist
	is_equal($name) unless $name eq 'an empty index';
}

# -- scans during replay
# ----------------------------------------

my $folder = temp_folder();
my $scans = write_file("$folder/scans.sql",
	"SELECT fault('t', with_check => false, with_recall => false);\n" x 20_000);
my $session = start_sql($standby, "\\i $scans");
$session->backend;
my $witness = witness($standby);
for my $round (1 .. 6)
{
	my ($from, $to) = (100_000 * $round, 100_000 * $round + 700);
	$primary->safe_psql(
		'postgres', "INSERT INTO t SELECT i, i % 7, point(64) FROM generate_series($from, $to) i;
		UPDATE t SET v = point(64) WHERE random() < 0.1; DELETE FROM t WHERE random() < 0.25");
	$primary->safe_psql('postgres', 'VACUUM t');
	$primary->safe_psql('postgres', 'REINDEX INDEX t_v') if $round == 4;
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('write'));
}
ok($session->is_waiting, 'scans on the standby continue during replay');
$standby->safe_psql('postgres', "SELECT pg_terminate_backend(@{[$session->backend]})");
my $result = $session->finish;
like(
	$result->{err},
	qr/terminating connection due to administrator command/,
	'scans on the standby do not fail until they are ended');
unlike($result->{err}, qr/(?:ERROR|WARNING):/, 'scans on the standby report no errors');
like($result->{out}, qr/\A\n*\z/, 'scans on the standby miss no row and return none twice');
same_cluster($witness, 'scans during replay');
is_equal('after all that');

# -- promotion
# ----------------------------------------

$primary->stop;
$standby->promote;
$standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()');
$standby->safe_psql(
	'postgres',
	"SELECT setseed(0.6); INSERT INTO t SELECT 1000000 + i, 0, point(64)
		FROM generate_series(1, 500) i;
	DELETE FROM t WHERE kind = 4");
index_is_correct($standby, 't', 'inserts work after promotion');
$standby->safe_psql('postgres', 'VACUUM t');
is( $standby->safe_psql('postgres', "SELECT vectors FROM rag_hnsw_info('t_v')"),
	$standby->safe_psql('postgres', 'SELECT count(*) FROM t'),
	'vacuum works after promotion');
index_is_correct($standby, 't', 'the index is correct after promotion');

$standby->stop;
done_testing();
