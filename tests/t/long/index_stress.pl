# Writers, searches and maintenance at both indexes of a table, for 10 minutes, with a standby that
# is promoted in the middle. Sessions are killed, and servers stopped at once. After each round the
# indexes are whole on both servers, and return the rows that other plans return.
#
# RAG_STRESS_SECONDS sets the time, and RAG_STRESS_SEED the seed of a run that is to be repeated:
# the same statements run, but not at the same moments.
use strict;
use warnings;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use Test::More;
use Time::HiRes qw(time);
use RagCluster;
use RagBm25;

my $seconds = $ENV{RAG_STRESS_SECONDS} // 600;
my $seed = $ENV{RAG_STRESS_SEED} // int(time);
note "RAG_STRESS_SEED=$seed";
srand($seed);

my $conf = "wal_level = replica\nmax_wal_senders = 5\nhot_standby = on\n"
  . "max_standby_streaming_delay = 5s\nwal_consistency_checking = 'generic'\n"
  . "maintenance_work_mem = 4MB\nrestart_after_crash = on\n";
my $node = bm25_node('first', conf => $conf);
$node->safe_psql(
	'postgres', q{
	CREATE TABLE t (id serial PRIMARY KEY, kind int, body text, v rag_types.vector);
	CREATE FUNCTION near(kind int) RETURNS rag_types.vector LANGUAGE sql AS $$
		SELECT ('[' || string_agg((sin(kind * i) + random() * 0.4)::real::text, ',') || ']')
			::rag_types.vector FROM generate_series(1, 24) i $$;
	CREATE FUNCTION add_rows(count int, words int) RETURNS void LANGUAGE sql AS $$
		INSERT INTO t (kind, body, v) SELECT k, CASE WHEN i % 19 > 0 THEN sentence(words) END,
			CASE WHEN i % 17 > 0 THEN near(k) END
		FROM generate_series(1, count) i, LATERAL (SELECT (random() * 50 + 0 * i)::int AS k) k $$;
	SELECT add_rows(4000, 20);
	CREATE INDEX t_body ON t USING rag_bm25 (body) WITH (text_config = 'simple');
	CREATE INDEX t_v ON t USING rag_hnsw (v vector_l2_ops);
	-- what is wrong with the rows that a scan of the vector index returns, or ''
	CREATE FUNCTION vector_fault(q rag_types.vector) RETURNS text STABLE LANGUAGE plpgsql
		SET enable_sort = off AS $$
	DECLARE found int[]; expected int[];
	BEGIN
		PERFORM set_config('enable_indexscan', 'on', true);
		SELECT array_agg(id) INTO found FROM (SELECT id FROM t ORDER BY v <-> q) x;
		PERFORM set_config('enable_indexscan', 'off', true);
		SELECT array_agg(id) INTO expected FROM t WHERE v IS NOT NULL;
		RETURN CASE WHEN ARRAY(SELECT unnest(found) ORDER BY 1)
				IS DISTINCT FROM ARRAY(SELECT unnest(expected) ORDER BY 1)
			THEN format('%s rows instead of %s', cardinality(found), cardinality(expected))
			ELSE '' END;
	END $$});
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('second');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;

# Scripts of the clients, with their weights.
my $some = 'SELECT id FROM t WHERE id % 97 = floor(random() * 97) LIMIT 3 FOR UPDATE SKIP LOCKED';
my %script = (
	one => [ 9, 'SELECT add_rows(1, 20);' ],
	several => [ 3, 'SELECT add_rows(40, 30);' ],
	many => [ 1, 'SELECT add_rows(1500, 25);' ],
	long => [ 1, 'SELECT add_rows(1, 5000);' ],
	update => [ 3, "UPDATE t SET v = near(kind), body = body || ' w7' WHERE id IN ($some);" ],
	hot => [ 2, "UPDATE t SET kind = kind WHERE id IN ($some);" ],
	delete => [ 4, "DELETE FROM t WHERE id IN ($some);" ],
	undone => [ 3, "BEGIN; SELECT add_rows(5, 20); SAVEPOINT a; SELECT add_rows(20, 20);
		ROLLBACK TO a; SELECT count(*) FROM (SELECT FROM t ORDER BY body <@> 'w1 w2' LIMIT 5) x;
		SELECT add_rows(5, 20); COMMIT;" ],
	aborted => [ 1, 'BEGIN; SELECT add_rows(30, 20); ROLLBACK;' ],
	search => [ 3, "SELECT id FROM t ORDER BY body <@> 'w1 w20 w300', id LIMIT 10;
		SELECT id FROM t ORDER BY v <-> near(7) LIMIT 10;" ]);
my $folder = temp_folder();
my @files = map {
	'--file=' . write_file("$folder/$_.sql", "$script{$_}[1]\n" =~ s/\s*\n\s*/ /gr . "\n")
	  . '@' . $script{$_}[0]
} sort keys %script;

my @work = (
	'VACUUM t', 'VACUUM (FREEZE) t', 'VACUUM (INDEX_CLEANUP on, PARALLEL 0) t',
	"SELECT rag_bm25_merge('t_body')", 'REINDEX INDEX CONCURRENTLY t_body',
	'REINDEX INDEX CONCURRENTLY t_v', 'CLUSTER t USING t_pkey', 'CHECKPOINT', 'ANALYZE t',
	'DELETE FROM t WHERE id % 7 = 3', 'UPDATE t SET v = near(kind) WHERE id % 5 = 1',
	"SELECT count(*) FROM rag_check_index('t_v')");

sub is_whole
{
	my ($server, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($server->safe_psql('postgres', "SELECT fault('t')"), '', "$name: the keyword index");
	is( $server->safe_psql('postgres', "SELECT string_agg(vector_fault(near(k)), '')
			FROM generate_series(1, 3) k"), '', "$name: the rows of the vector index")
	  if $server == $node;
	is($server->safe_psql('postgres', "SELECT * FROM rag_check_index('t_v')"),
		'', "$name: the vector index");
	return;
}

# Runs the clients, the owner's work and searches on the standby for some seconds. Returns what went
# wrong. Afterwards the server is killed or stopped at once, if it is to be.
sub round
{
	my ($length, $end) = @_;
	my ($out, $err, @failed) = ('', '');
	my @command = (
		$node->installed_command('pgbench'), '--no-vacuum', '--client=4', '--max-tries=1',
		"--time=$length", '--random-seed=' . int(rand 1e9), @files, $node->connstr('postgres'));
	my $pgbench = IPC::Run::start(\@command, '<', \undef, '>', \$out, '2>', \$err);
	my $until = time + $length - 1;
	while (time < $until)
	{
		my $result = run_sql($node, $work[ rand @work ]);
		push @failed, $result->{err} if $result->{rc} != 0;
		next unless $standby;
		$result = run_sql($standby, "SELECT fault('t', false)");
		push @failed, "standby: $result->{out}$result->{err}"
		  if $result->{out} ne '' || $result->{rc} != 0 && $result->{err} !~ /40001/;
	}
	if ($end eq 'kill')
	{
		my $pid = ask($node, "SELECT pid FROM pg_stat_activity WHERE application_name = 'pgbench'
			AND state = 'active' LIMIT 1");
		kill 'KILL', $pid if $pid;
	}
	$node->stop('immediate') if $end eq 'stop';
	$pgbench->finish;
	push @failed, $err =~ s/^pgbench \(.*\n//r if $end eq '' && $pgbench->result(0) != 0;
	$node->start if $end eq 'stop';
	await('the server is up', sub { $node->psql('postgres', 'SELECT 1') == 0 }) if $end ne '';
	return join '', @failed;
}

my $start = time;
my $rounds = 0;
while (time < $start + $seconds)
{
	my $end = ('', '', 'kill', 'stop')[ rand 4 ];
	my $name = 'round ' . ++$rounds . ($end && ", which ends with $end");
	is(round(15, $end), '', "$name: nothing fails");
	is_whole($node, $name);
	if ($standby)
	{
		$node->safe_psql('postgres', "SELECT pg_logical_emit_message(true, 'all', '')");
		$node->wait_for_catchup($standby, 'replay', $node->lsn('write'));
		is_whole($standby, "$name, on the standby");
	}
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id < (SELECT max(id) - 20000 FROM t)');
	next unless $standby && time > $start + $seconds / 2;
	$node->stop('immediate');
	$standby->promote;
	($node, $standby) = ($standby, undef);
	is_whole($node, 'after the promotion');
}
cmp_ok($rounds, '>', 1, "$rounds rounds were run");
is( $node->safe_psql('postgres', "SELECT in_flight_pages FROM rag_bm25_info('t_body')"),
	'0', 'no page is left of a segment that was interrupted')
  if $node->safe_psql('postgres', "SELECT rag_bm25_merge('t_body')") eq '';

$node->stop;
done_testing();
