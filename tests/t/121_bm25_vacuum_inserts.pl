# Inserts into a keyword index wait neither for vacuum nor for a merge, however long their texts
# are. So PostgreSQL does not cancel an autovacuum for them.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;
use RagBm25;

my $node = bm25_node(
	'vacuum_inserts',
	conf => "deadlock_timeout = 50ms\nlock_timeout = 2s\nautovacuum_naptime = 1s\n"
	  . "autovacuum_vacuum_cost_delay = 5ms\nautovacuum_vacuum_cost_limit = 100\n");
# The texts are short, and the table has no other index, so that vacuum is long at this one.
$node->safe_psql(
	'postgres', "CREATE TABLE t (id serial, body text);
	SELECT setseed(0.3); INSERT INTO t(body) SELECT sentence(3) FROM generate_series(1, 100000);
	CREATE INDEX t_body ON t USING rag_bm25 (body) WITH (text_config = 'simple')"
);

# Inserts more rows than the pending list has room for, and texts that take several records.
sub inserts_go_on
{
	my ($what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $result = run_sql(
		$node, "DO \$\$ BEGIN FOR i IN 1..12 LOOP
			INSERT INTO t(body) SELECT sentence(30) FROM generate_series(1, 500);
			INSERT INTO t(body) SELECT string_agg('big' || n, ' ') FROM generate_series(1, 900) n;
			COMMIT;
		END LOOP; END \$\$;
		SELECT pending_pages < 128 FROM rag_bm25_info('t_body')");
	is($result->{out} . $result->{err}, 't', "inserts go on, and spill, during $what");
	return;
}

# Stops vacuum while it sleeps in a phase, with the merge lock alone.
sub stop_vacuum
{
	my ($vacuum, $phase) = @_;
	my $pid = $vacuum->backend;
	my $is_asleep = "SELECT wait_event = 'VacuumDelay' AND phase = '$phase'
		FROM pg_stat_activity JOIN pg_stat_progress_vacuum USING (pid) WHERE pid = $pid";
	my $locks = "SELECT array_agg(tuple) FROM pg_locks
		WHERE pid = $pid AND locktype = 'tuple'";
	await(
		"vacuum is $phase",
		sub {
			$vacuum->is_waiting or die 'vacuum has ended before';
			return 0 if ask($node, $is_asleep) ne 't';
			freeze($pid);
			# while it sleeps, it has no lock of a page, nor of the table of locks
			return 1 if ask($node, $is_asleep) eq 't' and ask($node, $locks) eq '{1}';
			thaw($pid);
			return 0;
		});
	return $pid;
}

# -- vacuum
# ----------------------------------------

$node->safe_psql('postgres', 'DELETE FROM t WHERE id < 2000');
my $vacuum =
  start_sql($node, "SET vacuum_cost_delay = '20ms'; SET vacuum_cost_limit = 4; VACUUM t");
my $pid = stop_vacuum($vacuum, 'vacuuming indexes');
inserts_go_on('vacuum');
thaw($pid);
is($vacuum->finish->{rc}, 0, 'vacuum ends');
$node->safe_psql('postgres', 'VACUUM t');
is($node->safe_psql('postgres', "SELECT documents = (SELECT count(*) FROM t)
		FROM rag_bm25_info('t_body')"), 't', 'no document of a deleted row is left');

# -- autovacuum
# ----------------------------------------

$node->safe_psql('postgres', 'CREATE TABLE stop (id int); DELETE FROM t WHERE id % 3 = 0');
my $inserts = start_sql(
	$node, "DO \$\$ BEGIN
	WHILE NOT EXISTS (SELECT FROM stop) LOOP
		INSERT INTO t(body) SELECT string_agg('w' || n, ' ') FROM generate_series(1, 900) n;
		COMMIT;
	END LOOP; END \$\$");
configure($node, autovacuum => 'on');
await(
	'an autovacuum of the table has ended',
	sub {
		ask($node, "SELECT autovacuum_count > 0 FROM pg_stat_user_tables WHERE relname = 't'") eq
		  't';
	});
$node->safe_psql('postgres', 'INSERT INTO stop VALUES (1)');
is($inserts->finish->{rc}, 0, 'inserts of long texts go on during autovacuum');
unlike(slurp_file($node->logfile),
	qr/canceling autovacuum task/, 'autovacuum is not cancelled for them');
index_is_correct($node, 't', 'the index is correct after autovacuum beside inserts');

$node->stop;
done_testing();
