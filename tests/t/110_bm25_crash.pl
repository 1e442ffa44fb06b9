# The server is killed (SIGKILL of the postmaster and all its processes) while a keyword index is
# built, filled, merged and vacuumed. After recovery the index is correct and contains every
# committed row.
use strict;
use warnings;
use List::Util qw(max);
use Test::More;
use RagCluster;
use RagBm25;
use Time::HiRes qw(usleep);

my $node = bm25_node(
	'crash',
	conf => "wal_level = replica\nrestart_after_crash = on\n"
	  . "wal_consistency_checking = 'generic'\n");
$node->safe_psql(
	'postgres', "CREATE TABLE t (id int PRIMARY KEY, body text);
	SELECT setseed(0.2); INSERT INTO t SELECT i, sentence(30) FROM generate_series(1, 3000) i");

# -- builds
# ----------------------------------------

my $create =
  "CREATE INDEX t_body ON t USING rag_bm25 (body) WITH (text_config = 'simple', positions = on)";
$node->safe_psql('postgres', "BEGIN; $create; ROLLBACK");
my $session = start_sql($node, "BEGIN; $create; SELECT pg_sleep(1000)");
my $sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
await('the index is built', sub { ask($node, $sleeping) eq '1' });
crash($node);
isnt($session->finish->{rc}, 0, 'the server is killed before the build is committed');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_class WHERE relname = 't_body'"),
	'0', 'no index exists after that');
$node->safe_psql('postgres', $create);
crash($node);
index_is_correct($node, 't', 'an index survives a crash once its build has ended');

# -- inserts
# ----------------------------------------

# Starts sessions that insert rows, each in a transaction of its own, and print the ids of committed
# rows. They have more rows than they get to. Some documents do not fit into a page.
sub start_inserts
{
	my ($from) = @_;
	my $folder = temp_folder();
	return map {
		my $statements = join "\n", map {
			my $words = $_ % 200 ? 40 : 3000;
			"INSERT INTO t SELECT $_, sentence($words) RETURNING id;"
		} $_ .. $_ + 30_000;
		start_sql($node, '\i ' . write_file("$folder/$_.sql", $statements))
	} ($from, $from + 50_000);
}

sub count_rows { return ask($node, 'SELECT count(*) FROM t') }

# Checks that every row that the sessions have printed exists.
sub nothing_is_lost
{
	my ($name, @sessions) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @ids = map {
		my $result = $_->finish;
		isnt($result->{rc}, 0, "$name: the session is disconnected");
		split /\n/, $result->{out}
	} @sessions;
	cmp_ok(scalar @ids, '>', 50, "$name: rows were committed before the crash");
	is( $node->safe_psql(
			'postgres', 'SELECT count(*) FROM t WHERE id IN (' . join(',', @ids) . ')'),
		scalar @ids,
		"$name: all committed rows exist");
	index_is_correct($node, 't', "$name: the index is correct");
	return;
}

# Each round ends at another moment: of the pending list, of a spill, or of a merge.
my $next = 100_000;
for my $rows (150, 700, 1100, 1600)
{
	my $before = count_rows();
	my @sessions = start_inserts($next);
	await('rows are inserted', sub { count_rows() > $before + $rows });
	$node->safe_psql('postgres', 'CHECKPOINT') if $rows == 700;
	crash($node);
	nothing_is_lost("SIGKILL after $rows rows", @sessions);
	$next += 100_000;
}
for my $round (1 .. 3)
{
	my $before = count_rows();
	my @sessions = start_inserts($next);
	await('rows are inserted', sub { count_rows() > $before + 100 * $round });
	# A stopped backend may hold any lock, so no query is sent from here on. The server's WAL writer
	# writes what it has logged.
	freeze($_) for map { $_->backend } @sessions;
	usleep(500_000);
	crash($node);
	nothing_is_lost("stopped in the middle $round", @sessions);
	$next += 100_000;
}

# -- merges and vacuum
# ----------------------------------------

my $info =
  "SELECT segments, deleted, pending_documents, in_flight_pages FROM rag_bm25_info('t_body')";
for my $milliseconds (0, 10, 30, 80, 200)
{
	$node->safe_psql(
		'postgres', "SELECT setseed(0.3); DELETE FROM t WHERE random() < 0.2;
		INSERT INTO t SELECT max + i, sentence(40) FROM generate_series(1, 1500) i,
		(SELECT max(id) FROM t) m"
	);
	for my $statement ("SELECT rag_bm25_merge('t_body')", 'VACUUM t')
	{
		$session = start_sql($node, $statement);
		# the session takes some time to connect, and the statement may end before the crash
		usleep(1000 * (30 + $milliseconds));
		$node->safe_psql('postgres', 'SELECT pg_switch_wal()') if $session->is_waiting;
		crash($node);
		$session->finish;
		index_is_correct($node, 't', "$statement killed after $milliseconds ms: it is correct");
	}
	$node->safe_psql('postgres', 'VACUUM t');
	$node->safe_psql('postgres', "SELECT rag_bm25_merge('t_body')");
	is($node->safe_psql('postgres', $info),
		'1|0|0|0', "killed after $milliseconds ms: the next merge finishes the work");
	index_is_correct($node, 't', "killed after $milliseconds ms: it is correct after that");
}

# blocks that are no longer needed are used again: the file stops growing
my $pages = "SELECT pages FROM rag_bm25_info('t_body')";
my @sizes = map {
	$node->safe_psql('postgres', "UPDATE t SET body = body WHERE id % 4 = $_ % 4");
	$node->safe_psql('postgres', 'VACUUM t');
	$node->safe_psql('postgres', "SELECT rag_bm25_merge('t_body')");
	$node->safe_psql('postgres', $pages)
} 1 .. 16;
cmp_ok(max(@sizes[ 8 .. 15 ]), '<=', 1.1 * max(@sizes[ 0 .. 7 ]),
	"a file with many merges stops growing (@sizes pages)");
index_is_correct($node, 't', 'the index is correct after many merges');

# -- new relations without WAL
# ----------------------------------------

$node->append_conf('postgresql.conf', "wal_level = minimal\nmax_wal_senders = 0\n");
$node->restart;
$node->safe_psql(
	'postgres',
	"BEGIN; CREATE TABLE new (id int, body text);
		CREATE INDEX new_body ON new USING rag_bm25 (body) WITH (text_config = 'simple');
	SELECT setseed(0.5);
	INSERT INTO new SELECT i, sentence(40) FROM generate_series(1, 1500) i; COMMIT;
	INSERT INTO new SELECT i, sentence(40) FROM generate_series(1501, 1600) i");
crash($node);
index_is_correct($node, 'new',
	'table and index of one transaction are correct with wal_level = minimal');

$node->stop;
done_testing();
