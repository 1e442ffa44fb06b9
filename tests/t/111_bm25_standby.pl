# A streaming standby returns the same rows with the same scores as its primary, after every kind of
# change. Its searches continue while changes are replayed. If pages are used again that a search on
# the standby needs, it fails with SQLSTATE 40001 and nothing else.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use Test::More;
use RagCluster;
use RagBm25;

my $conf =
  "wal_level = replica\nmax_wal_senders = 5\nhot_standby = on\nmax_standby_streaming_delay = -1\n";
my $primary = bm25_node('primary', conf => $conf);
$primary->safe_psql('postgres', 'CREATE TABLE t (id int PRIMARY KEY, kind int, body text)');
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', 'hot_standby_feedback = on');
$standby->start;

my $answers = "SELECT answer('t', query, true) FROM search ORDER BY id";
my $info = "SELECT * FROM rag_bm25_info('t_body')";

sub catch_up
{
	# the WAL writer flushes the last records of a vacuum; a transaction flushes its own
	$primary->safe_psql('postgres', "SELECT pg_logical_emit_message(true, 'all', '')");
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('write'));
	return;
}

sub is_equal
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	catch_up();
	is( $standby->safe_psql('postgres', $answers),
		$primary->safe_psql('postgres', $answers),
		"$name: the standby returns the same rows and scores as the primary");
	is( $standby->safe_psql('postgres', $info),
		$primary->safe_psql('postgres', $info),
		"$name: rag_bm25_info is the same on the standby");
	is($standby->safe_psql('postgres', "SELECT fault('t')"),
		'', "$name: the index is correct on the standby");
	return;
}

my @steps = (
	'an empty index' =>
	  "CREATE INDEX t_body ON t USING rag_bm25 (body)
		WITH (text_config = 'simple', positions = on)",
	'pending rows' => 'SELECT setseed(0.2); INSERT INTO t SELECT i, i % 7, sentence(30)
			FROM generate_series(1, 300) i',
	'a spill' => 'SELECT setseed(0.3); INSERT INTO t SELECT i, i % 7, sentence(30)
			FROM generate_series(301, 2500) i',
	'a large document' => 'INSERT INTO t SELECT 2501, 9, sentence(20000)',
	'deletes' => 'DELETE FROM t WHERE kind = 3',
	'a vacuum' => 'VACUUM t',
	'a merge' => "SELECT rag_bm25_merge('t_body')",
	'updates' => 'UPDATE t SET body = sentence(30) WHERE kind = 1;
		UPDATE t SET kind = 9 WHERE kind = 2; VACUUM t',
	'REINDEX' => 'REINDEX INDEX t_body',
	'REINDEX CONCURRENTLY' => 'REINDEX INDEX CONCURRENTLY t_body');
while (my ($name, $statements) = splice @steps, 0, 2)
{
	$primary->safe_psql('postgres', $statements);
	is_equal($name);
}

# -- searches during replay
# ----------------------------------------

# Runs searches on the standby while the primary changes everything. Returns their errors.
sub search_during_replay
{
	my ($round) = @_;
	my $folder = temp_folder();
	my $scans = write_file("$folder/scans.sql",
		"\\set ON_ERROR_STOP 0\n" . "SELECT fault('t', with_check => false);\n" x 3000);
	my $session = start_sql($standby, "\\i $scans");
	$session->backend;
	for my $i (1 .. 6)
	{
		my $from = 100_000 * ($round * 10 + $i);
		$primary->safe_psql(
			'postgres', "INSERT INTO t SELECT $from + i, i % 7, sentence(40)
				FROM generate_series(1, 900) i;
			UPDATE t SET body = sentence(30) WHERE random() < 0.1;
			DELETE FROM t WHERE random() < 0.25");
		$primary->safe_psql('postgres', 'VACUUM t');
		$primary->safe_psql('postgres', "SELECT rag_bm25_merge('t_body')");
		catch_up();
	}
	ok($session->is_waiting, 'searches on the standby continue during replay');
	$standby->safe_psql('postgres', "SELECT pg_terminate_backend(@{[$session->backend]})");
	my $result = $session->finish;
	like($result->{out}, qr/\A\s*\z/, 'searches on the standby miss no row and return none twice');
	my @errors = grep { !/terminating connection|terminated|connection to server/ }
	  grep { /(?:ERROR|WARNING|FATAL|PANIC):/ } split /\n/, $result->{err};
	return @errors;
}

my $witness = witness($standby);
my @errors = search_during_replay(1);
is(join("\n", @errors), '', 'with hot_standby_feedback, no search fails');
$standby->append_conf('postgresql.conf',
	"hot_standby_feedback = off\nmax_standby_streaming_delay = 30s");
$standby->reload;
@errors = grep { !/ERROR:  40001/ } search_during_replay(2);
is(join("\n", @errors), '', 'without it, searches fail with 40001 only');
same_cluster($witness, 'searches during replay');
is_equal('after all that');

# -- promotion
# ----------------------------------------

$primary->stop;
$standby->promote;
$standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()');
$standby->safe_psql(
	'postgres',
	"SELECT setseed(0.6); INSERT INTO t SELECT 9000000 + i, 0, sentence(30)
		FROM generate_series(1, 1500) i;
	DELETE FROM t WHERE kind = 4");
index_is_correct($standby, 't', 'inserts work after promotion');
$standby->safe_psql('postgres', 'VACUUM t');
index_is_correct($standby, 't', 'the index is correct after promotion and vacuum');

$standby->stop;
done_testing();
