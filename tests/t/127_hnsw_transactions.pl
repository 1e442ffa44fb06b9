# A transaction collects the vectors that it inserts, and writes them before it commits. It finds
# its own rows, whatever it does between. Nobody ever finds a row of a place that was given away.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;
use RagHnsw;

my $space = PostgreSQL::Test::Utils::tempdir();
my $node = hnsw_node('transactions',
	conf => "max_prepared_transactions = 2\nmax_wal_size = 4GB\nshared_buffers = 256MB\n");
$node->safe_psql('postgres', "CREATE TABLESPACE elsewhere LOCATION '$space';
	CREATE FUNCTION far(n int) RETURNS rag_types.vector LANGUAGE sql AS
		'SELECT array_agg(10 + (i * \$1) % 7 * 0.01)::rag_types.vector
			FROM generate_series(1, 64) i'");

# Creates a table with rows, and an index.
sub table
{
	my ($name, $rows) = @_;
	$node->safe_psql(
		'postgres', "CREATE TABLE $name (id serial PRIMARY KEY, v rag_types.vector);
		SELECT setseed(0.4);
		INSERT INTO $name(v) SELECT point(64) FROM generate_series(1, $rows);
		CREATE INDEX ${name}_v ON $name USING rag_hnsw (v vector_l2_ops)");
	return;
}

# Runs statements in a table of their own, whose index must be right afterwards.
my $tables = 0;

sub leaves_a_correct_index
{
	my ($name, $statements, $output) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$tables++;
	table("t$tables", 300);
	$statements =~ s/\bT\b/t$tables/g;
	$statements =~ s/\bT_v\b/t${tables}_v/g;
	$statements =~ s/\bT_pkey\b/t${tables}_pkey/g;
	my $result = run_sql($node, "SET enable_seqscan = off; $statements");
	is($result->{out} . $result->{err}, $output // '', "$name: output");
	index_is_correct($node, "t$tables", $name);
	return;
}

my $insert = 'INSERT INTO T(v) SELECT point(64) FROM generate_series(1, 200)';
my $new = 'INSERT INTO T(v) VALUES (far(1))';
# the number of far rows among the nearest
my $search = "SELECT count(*) FILTER (WHERE v <-> far(1) < 1)
	FROM (SELECT v FROM T ORDER BY v <-> far(1) LIMIT 40) x";

# -- what a transaction sees of itself
# ----------------------------------------

leaves_a_correct_index('searches between inserts',
	"BEGIN; $new; $search; $new; $search; $insert; $new; $search; COMMIT; $search", "1\n2\n3\n3");
leaves_a_correct_index('inserts that are rolled back', "BEGIN; $insert; $new; ROLLBACK; $search",
	'0');
leaves_a_correct_index('savepoints', "BEGIN; $new; SAVEPOINT a; $insert; SAVEPOINT b; $new;
	RELEASE b; ROLLBACK TO a; $search; SAVEPOINT c; $new; RELEASE c; $search; COMMIT", "1\n2");
leaves_a_correct_index('a search in a subtransaction that is rolled back',
	"BEGIN; $new; SAVEPOINT a; $new; $search; ROLLBACK TO a; $search; COMMIT; $search", "2\n1\n1");
leaves_a_correct_index('exceptions', "DO \$\$ BEGIN FOR i IN 1..50 LOOP BEGIN
	INSERT INTO T(v) VALUES (far(i)); IF i % 2 = 0 THEN RAISE 'no'; END IF;
	EXCEPTION WHEN raise_exception THEN NULL; END;
	END LOOP; END \$\$; $search", '25');
leaves_a_correct_index('updates and deletes', "BEGIN; $insert; $new;
	UPDATE T SET v = far(2) WHERE v <-> far(1) < 1; $search;
	DELETE FROM T WHERE id % 5 = 0; UPDATE T SET v = far(3) WHERE id = 4; COMMIT; $search",
	"1\n2");
leaves_a_correct_index('conflicts', "INSERT INTO T VALUES (1, far(1)), (2, far(2))
	ON CONFLICT (id) DO UPDATE SET v = excluded.v; $search", '2');
leaves_a_correct_index('a held cursor', "BEGIN; $new; DECLARE c CURSOR WITH HOLD FOR
	SELECT id > 300 FROM T ORDER BY v <-> far(1) LIMIT 1; COMMIT; FETCH c", 't');
leaves_a_correct_index('a trigger at commit', "CREATE FUNCTION add_row() RETURNS trigger
	LANGUAGE plpgsql AS 'BEGIN IF new.v <-> far(2) > 0 THEN
		INSERT INTO T(v) VALUES (far(2)); END IF; RETURN NULL; END';
	CREATE CONSTRAINT TRIGGER late AFTER INSERT ON T INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION add_row();
	BEGIN; $new; $new; COMMIT; $search", '4');
leaves_a_correct_index('COPY FREEZE', "BEGIN; TRUNCATE T; COPY T FROM PROGRAM
	'seq 1 300 | sed \"s/.*/&\\t[\$(seq -s, 64)]/\"' (FREEZE); COMMIT;
	SELECT count(*) FROM (SELECT FROM T ORDER BY v <-> far(1)) x", '300');
leaves_a_correct_index('a prepared transaction', "BEGIN; $insert; $new;
	PREPARE TRANSACTION 'p'; $search; COMMIT PREPARED 'p'; $search", "0\n1");
leaves_a_correct_index('parallel workers', "BEGIN; $new; SET LOCAL parallel_setup_cost = 0;
	SET LOCAL parallel_tuple_cost = 0; SET LOCAL min_parallel_table_scan_size = 0;
	SET LOCAL parallel_leader_participation = off; SET LOCAL enable_seqscan = on;
	CREATE TABLE q AS SELECT i FROM generate_series(1, 1000) i; ANALYZE q;
	ALTER TABLE q SET (parallel_workers = 2);
	ALTER FUNCTION far PARALLEL SAFE;
	SELECT count(*), min((SELECT v <-> far(1) FROM T ORDER BY v <-> far(q.i - q.i + 1) LIMIT 1))
	FROM q; DROP TABLE q; COMMIT", '1000|0');
leaves_a_correct_index('vectors of other dimensions', "BEGIN; $new; SAVEPOINT a;
	DO \$\$ BEGIN INSERT INTO T(v) VALUES ('[1,2]'); EXCEPTION WHEN data_exception THEN NULL; END
	\$\$; $new; COMMIT; $search", '2');
leaves_a_correct_index('a rebuild beside a transaction', "BEGIN; $insert; $new; COMMIT;
	REINDEX INDEX CONCURRENTLY T_v; $search", '1');

# -- commands that change the index's file in the same transaction
# ----------------------------------------

for my $command (
	'REINDEX TABLE T',
	'TRUNCATE T',
	'CLUSTER T USING T_pkey',
	'ALTER INDEX T_v SET TABLESPACE elsewhere',
	'ALTER TABLE T SET UNLOGGED',
	'ALTER TABLE T ALTER id TYPE bigint',
	'DROP INDEX T_v; CREATE INDEX T_v ON T USING rag_hnsw (v vector_l2_ops)')
{
	leaves_a_correct_index("$command between inserts", "BEGIN; $insert; $command; $insert; COMMIT");
	leaves_a_correct_index("$command that is rolled back",
		"BEGIN; $insert; SAVEPOINT a; $command; $insert; ROLLBACK TO a; $insert; COMMIT");
}
is( run_sql(
		$node, "BEGIN; CREATE TABLE gone (id int, v rag_types.vector);
	CREATE INDEX ON gone USING rag_hnsw (v vector_l2_ops);
	INSERT INTO gone SELECT i, point(64) FROM generate_series(1, 100) i; DROP TABLE gone; COMMIT;
	CREATE TEMP TABLE gone (id int, v rag_types.vector) ON COMMIT DELETE ROWS;
	CREATE INDEX ON gone USING rag_hnsw (v vector_l2_ops); SET enable_seqscan = off;
	BEGIN; INSERT INTO gone SELECT i, point(64) FROM generate_series(1, 100) i; COMMIT;
	SELECT count(*) FROM (SELECT FROM gone ORDER BY v <-> far(1) LIMIT 10) x")->{out},
	'0', 'tables that are dropped or emptied');

# -- the centroid of an index that was created empty, which is learned from what is inserted
# ----------------------------------------

for my $rows (100, 3000, 40000)
{
	$node->safe_psql(
		'postgres', "CREATE TABLE filled$rows (id serial, v rag_types.vector);
		CREATE INDEX ON filled$rows USING rag_hnsw (v vector_l2_ops);
		INSERT INTO filled$rows(v) SELECT point(64) FROM generate_series(1, $rows)");
	index_is_correct($node, "filled$rows", "$rows rows of one statement into an empty index");
}

# -- places that are given away before the transaction ends
# ----------------------------------------

table('places', 300);
my $session = session($node);
$session->query('BEGIN; SAVEPOINT a');
$session->query('INSERT INTO places(id, v)
	SELECT 10000 + i, far(i) FROM generate_series(1, 500) i');
$session->query('ROLLBACK TO a');
$node->safe_psql('postgres', 'VACUUM places; VACUUM places;
	INSERT INTO places(v) SELECT point(64) FROM generate_series(1, 250);');
$session->query('INSERT INTO places(id, v)
	SELECT 20000 + i, point(64) FROM generate_series(1, 400) i');
$session->query('COMMIT');
index_is_correct($node, 'places', 'places of rows that were rolled back, and given to others');
is( run_sql($node, 'SET enable_seqscan = off;
		SELECT count(*) FROM (SELECT v FROM places ORDER BY v <-> far(1) LIMIT 40) x
		WHERE v <-> far(1) < 5')->{out},
	'0', 'no row is found by the vector of another one');

# -- two sessions, and vacuum, in the same region
# ----------------------------------------

table('shared', 300);
my @sessions = (session($node), session($node));
for my $round (1 .. 5)
{
	for my $number (0, 1)
	{
		my $gone = $round * 7 + $number;
		$sessions[$number]->query("BEGIN; DELETE FROM shared WHERE id % 50 = $gone");
		$sessions[$number]
		  ->query('INSERT INTO shared(v) SELECT point(64) FROM generate_series(1, 300)');
	}
	$_->query('COMMIT') for @sessions;
	$node->safe_psql('postgres', 'VACUUM shared');
}
index_is_correct($node, 'shared', 'transactions that write to the same region');

$node->stop;
done_testing();
