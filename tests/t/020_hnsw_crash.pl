# The server is killed (SIGKILL of the postmaster and all its processes) while an index is built,
# filled and vacuumed. After recovery the index is correct and contains every committed row.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagHnsw;
use Time::HiRes qw(usleep);

my $node = hnsw_node('crash', conf => "wal_level = replica\nrestart_after_crash = on\n");
my $size = 4000;
$node->safe_psql(
	'postgres', "CREATE TABLE t (id int PRIMARY KEY, v rag_types.vector);
	SELECT setseed(0.2); INSERT INTO t SELECT i, point(64) FROM generate_series(1, $size) i");

# -- builds
# ----------------------------------------

# An index that takes long to build. With little memory most rows are inserted one by one.
my $create = 'CREATE INDEX t_v ON t USING rag_hnsw (v vector_l2_ops) WITH (ef_construction = 600)';
my %build = (
	'linking vectors' => $create,
	'inserting what does not fit' => "SET maintenance_work_mem = '1MB'; $create");
for my $phase (sort keys %build)
{
	my $session = start_sql($node, $build{$phase});
	my $pid = await_phase($session, 'create_index', $phase);
	if ($phase =~ /inserting/)
	{
		# some insertions are on disk, some only in the log, some in neither; the stopped process
		# may hold a lock on a page
		thaw($pid);
		$node->safe_psql('postgres', 'CHECKPOINT');
	}
	crash($node);
	isnt($session->finish->{rc}, 0, "the server is killed $phase");
	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_class WHERE relname = 't_v'"),
		'0', "no index exists after the server was killed $phase");
	$node->safe_psql('postgres', 'CREATE INDEX t_v ON t USING rag_hnsw (v vector_l2_ops)');
	index_is_correct($node, 't', "a new index is correct after the server was killed $phase");
	$node->safe_psql('postgres', 'DROP INDEX t_v');
}

# an index survives a crash once its build has ended
$node->safe_psql('postgres', 'CREATE INDEX t_v ON t USING rag_hnsw (v vector_l2_ops)');
crash($node);
index_is_correct($node, 't', 'an existing index is correct after crashes during builds');

# -- inserts
# ----------------------------------------

# Starts sessions that insert rows, each in a transaction of its own, and print the ids of committed
# rows. They have more rows than they get to.
sub start_inserts
{
	my ($from) = @_;
	my $folder = temp_folder();
	return map {
		my $statements = join "\n",
		  map { "INSERT INTO t SELECT $_, point(64) RETURNING id;" } $_ .. $_ + 40_000;
		start_sql($node, '\i ' . write_file("$folder/$_.sql", $statements))
	} ($from, $from + 50_000);
}

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

sub count_rows { return ask($node, 'SELECT count(*) FROM t') }

my $next = 100_000;
for my $how ('SIGKILL of all', 'SIGKILL of all after a checkpoint', 'an immediate stop')
{
	my $before = count_rows();
	my @sessions = start_inserts($next);
	await('rows are inserted', sub { count_rows() > $before + 100 });
	if ($how =~ /checkpoint/)
	{
		$node->safe_psql('postgres', 'CHECKPOINT');
		my $now = count_rows();
		await('more rows are inserted', sub { count_rows() > $now + 50 });
	}
	if ($how =~ /SIGKILL/)
	{
		crash($node);
	}
	else
	{
		$node->stop('immediate');
		$node->start;
	}
	nothing_is_lost($how, @sessions);
	$next += 100_000;
}

# one backend crashes, and the postmaster starts the others again
my $before = count_rows();
my @sessions = start_inserts($next);
await('rows are inserted', sub { count_rows() > $before + 100 });
my $started = ask($node, 'SELECT pg_postmaster_start_time()');
kill 'KILL', $sessions[0]->backend;
await(
	'the sessions are cut off',
	sub {
		!grep { $_->is_waiting } @sessions;
	});
await('the server works again', sub { run_sql($node, 'SELECT 1')->{rc} == 0 });
is($node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()'),
	$started, 'the postmaster survives the crash of a backend');
nothing_is_lost('SIGKILL of a backend', @sessions);
$node->restart;

# an insert that is stopped halfway
for my $round (1 .. 3)
{
	@sessions = start_inserts($next += 100_000);
	$before = count_rows();
	await('rows are inserted', sub { count_rows() > $before + 60 + 30 * $round });
	# A stopped backend may hold any lock, so no query is sent from here on. The server's WAL writer
	# writes what it has logged.
	my @pids = map { $_->backend } @sessions;
	freeze($_) for @pids;
	usleep(500_000);
	crash($node);
	nothing_is_lost("stopped in the middle $round", @sessions);
}

# -- vacuum
# ----------------------------------------

# Enough rows are deleted for a repair. Vacuum is slow, so that it has done only a part of its work.
my $info = "SELECT vectors, tombstones, free_slots > 0 FROM rag_hnsw_info('t_v')";
my $cut_off = 0;
# time of the crash, in milliseconds since the start of a phase
for my $moment ([ 'vacuuming indexes', 0 ], map { [ 'cleaning up indexes', $_ ] } 0, 60, 150, 300)
{
	my ($phase, $milliseconds) = @$moment;
	my $name = "$milliseconds ms since it began $phase";
	$node->safe_psql(
		'postgres', "SELECT setseed(0.3); DELETE FROM t WHERE random() < 0.3;
		 INSERT INTO t SELECT max + i, point(64) FROM generate_series(1, 1500) i, (SELECT max(id)
		 FROM t) m"
	);
	# the first phase ends after a few pages
	my $limit = $phase eq 'vacuuming indexes' ? 20 : 200;
	my $session =
	  start_sql($node, "SET vacuum_cost_delay = '20ms'; SET vacuum_cost_limit = $limit; VACUUM t");
	my $pid = await_phase($session, 'vacuum', $phase);
	thaw($pid);
	usleep(1000 * $milliseconds);
	if ($session->is_waiting)
	{
		$cut_off++;
		# flushes what vacuum has done so far; it continues slowly meanwhile
		$node->safe_psql('postgres', $milliseconds % 100 ? 'SELECT pg_switch_wal()' : 'CHECKPOINT');
	}
	crash($node);
	$session->finish;
	index_is_correct($node, 't', "vacuum killed $name: the index is correct");
	$node->safe_psql(
		'postgres',
		'SELECT setseed(0.4); INSERT INTO t SELECT max + i, point(64)
			FROM generate_series(1, 300) i, (SELECT max(id) FROM t) m'
	);
	index_is_correct($node, 't', "vacuum killed $name: the index is correct after inserts");
	my $rows = $node->safe_psql('postgres', 'SELECT count(*) FROM t');
	$node->safe_psql('postgres', 'VACUUM t');
	is($node->safe_psql('postgres', $info),
		"$rows|0|t", "vacuum killed $name: the next vacuum finishes the work");
	index_is_correct($node, 't', "vacuum killed $name: the index is correct after the next vacuum");
}
cmp_ok($cut_off, '>=', 4, 'vacuum was still running at four or more of the crashes');

# -- new relations without WAL
# ----------------------------------------

$node->append_conf('postgresql.conf', "wal_level = minimal\nmax_wal_senders = 0\n");
$node->restart;
$node->safe_psql(
	'postgres',
	"BEGIN; CREATE TABLE new (id int, v rag_types.vector);
		CREATE INDEX new_v ON new USING rag_hnsw (v vector_l2_ops);
	SELECT setseed(0.5); INSERT INTO new SELECT i, point(64) FROM generate_series(1, 500) i; COMMIT;
	INSERT INTO new SELECT i, point(64) FROM generate_series(501, 600) i");
crash($node);
index_is_correct($node, 'new',
	'table and index of one transaction are correct with wal_level = minimal');

$node->stop;
done_testing();
