# A transaction collects the documents that it inserts, and writes them before it commits. It finds
# its own rows, whatever it does between. Nobody ever finds a row of a place that was given away. A
# large transaction leaves no more pages than many small ones.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;
use RagBm25;

my $space = PostgreSQL::Test::Utils::tempdir();
my $node = bm25_node('transactions',
	conf => "max_prepared_transactions = 2\nmax_wal_size = 4GB\nshared_buffers = 256MB\n");
$node->safe_psql('postgres', "CREATE TABLESPACE elsewhere LOCATION '$space'");

# Creates a table with rows, and an index.
sub table
{
	my ($name, $rows) = @_;
	$node->safe_psql(
		'postgres', "CREATE TABLE $name (id serial PRIMARY KEY, body text);
		SELECT setseed(0.4);
		INSERT INTO $name(body) SELECT sentence(8) FROM generate_series(1, $rows);
		CREATE INDEX ${name}_body ON $name USING rag_bm25 (body) WITH (text_config = 'simple')");
	return;
}

# Runs statements in a table of their own, whose index must be right afterwards.
my $tables = 0;

sub leaves_a_correct_index
{
	my ($name, $statements, $output) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$tables++;
	table("t$tables", 500);
	$statements =~ s/\bT\b/t$tables/g;
	$statements =~ s/\bT_body\b/t${tables}_body/g;
	my $result = run_sql($node, $statements);
	is($result->{out} . $result->{err}, $output // '', "$name: output");
	index_is_correct($node, "t$tables", $name);
	return;
}

my $insert = 'INSERT INTO T(body) SELECT sentence(8) FROM generate_series(1, 300)';
my $new = "INSERT INTO T(body) VALUES ('nonesuch word')";
my $search = "SELECT count(*) FROM (SELECT FROM T ORDER BY body <@> 'nonesuch' LIMIT 9) x";

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
	$new; IF i % 2 = 0 THEN RAISE 'no'; END IF; EXCEPTION WHEN raise_exception THEN NULL; END;
	END LOOP; END \$\$; SELECT count(*) FROM T WHERE body \@\@\@ 'nonesuch'", '25');
leaves_a_correct_index('updates and deletes', "BEGIN; $insert; $new;
	UPDATE T SET body = body || ' more' WHERE body LIKE 'none%'; $search;
	DELETE FROM T WHERE id % 3 = 0; UPDATE T SET body = 'nonesuch' WHERE id = 4; COMMIT; $search",
	"1\n1");
leaves_a_correct_index('conflicts', "INSERT INTO T VALUES (1, 'nonesuch'), (2, 'nonesuch')
	ON CONFLICT (id) DO UPDATE SET body = excluded.body; $search", '2');
leaves_a_correct_index('a cursor from before a delete', "BEGIN; $new;
	DECLARE c CURSOR FOR SELECT body FROM T ORDER BY body <@> 'nonesuch' LIMIT 1;
	DELETE FROM T WHERE body LIKE 'none%'; FETCH c; COMMIT; $search", "nonesuch word\n0");
leaves_a_correct_index('a held cursor', "BEGIN; $new; DECLARE c CURSOR WITH HOLD FOR
	SELECT body FROM T ORDER BY body <@> 'nonesuch' LIMIT 1; COMMIT; FETCH c", 'nonesuch word');
leaves_a_correct_index('a trigger at commit', "CREATE FUNCTION add_row() RETURNS trigger
	LANGUAGE plpgsql AS 'BEGIN IF new.body NOT LIKE ''from%'' THEN
		INSERT INTO T(body) VALUES (''from nonesuch''); END IF; RETURN NULL; END';
	CREATE CONSTRAINT TRIGGER late AFTER INSERT ON T INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION add_row();
	BEGIN; $new; $new; COMMIT; $search", '4');
leaves_a_correct_index('COPY FREEZE', "BEGIN; TRUNCATE T; COPY T FROM PROGRAM
	'for i in 1 2 3 4; do printf \"%s\\tnonesuch w1\\n\" \$i; done' (FREEZE); COMMIT; $search",
	'4');
leaves_a_correct_index('a prepared transaction', "BEGIN; $insert; $new;
	PREPARE TRANSACTION 'p'; $search; COMMIT PREPARED 'p'; $search", "0\n1");

# -- commands that change the index's file in the same transaction
# ----------------------------------------

for my $command (
	'REINDEX TABLE T',
	'REINDEX INDEX T_body',
	'TRUNCATE T',
	'CLUSTER T USING T_pkey',
	'ALTER INDEX T_body SET TABLESPACE elsewhere',
	'ALTER TABLE T SET UNLOGGED',
	'ALTER TABLE T ALTER id TYPE bigint',
	"ALTER TABLE T ALTER body TYPE text USING body || ' w2'",
	'DROP INDEX T_body; CREATE INDEX T_body ON T USING rag_bm25 (body)
		WITH (text_config = simple)')
{
	(my $pkey = $command) =~ s/T_pkey/t@{[$tables + 1]}_pkey/;
	leaves_a_correct_index("$command after an insert", "BEGIN; $insert; $pkey; COMMIT");
	($pkey = $command) =~ s/T_pkey/t@{[$tables + 1]}_pkey/;
	leaves_a_correct_index("$command between inserts", "BEGIN; $insert; $pkey; $insert; COMMIT");
	($pkey = $command) =~ s/T_pkey/t@{[$tables + 1]}_pkey/;
	leaves_a_correct_index("$command that is rolled back",
		"BEGIN; $insert; SAVEPOINT a; $pkey; $insert; ROLLBACK TO a; $insert; COMMIT");
}
is( run_sql(
		$node, "BEGIN; CREATE TABLE gone (id int, body text);
	CREATE INDEX ON gone USING rag_bm25 (body) WITH (text_config = 'simple');
	INSERT INTO gone SELECT i, sentence(8) FROM generate_series(1, 100) i; DROP TABLE gone; COMMIT;
	CREATE TEMP TABLE gone (id int, body text) ON COMMIT DELETE ROWS;
	CREATE INDEX ON gone USING rag_bm25 (body) WITH (text_config = 'simple');
	BEGIN; INSERT INTO gone SELECT i, 'w' FROM generate_series(1, 100) i; COMMIT;
	SELECT count(*) FROM (SELECT FROM gone ORDER BY body <@> 'w' LIMIT 10) x")->{out},
	'0', 'tables that are dropped or emptied');

# -- places that are given away before the transaction ends
# ----------------------------------------

table('places', 500);
my $session = session($node);
$session->query('BEGIN; SAVEPOINT a');
$session->query("INSERT INTO places(id, body)
	SELECT 10000 + i, 'ghost w' || i FROM generate_series(1, 2000) i");
$session->query('ROLLBACK TO a');
$node->safe_psql('postgres', "VACUUM places; VACUUM places;
	INSERT INTO places(body) SELECT sentence(3) FROM generate_series(1, 1000);");
$session->query("INSERT INTO places(id, body)
	SELECT 20000 + i, 'w1 w2' FROM generate_series(1, 1500) i");
$session->query('COMMIT');
index_is_correct($node, 'places', 'places of rows that were rolled back, and given to others');
is($node->safe_psql('postgres', "SELECT count(*) FROM places WHERE body \@\@\@ 'ghost'"),
	'0', 'no row is found by words of another one');

# The transaction itself gives the places to rows that the index does not have: without a text, and
# outside of a partial index.
for my $case ([ 'blank', 'NULL', '' ], [ 'partial', "'w1'", 'WHERE id < 20000' ])
{
	my ($name, $body, $condition) = @$case;
	$node->safe_psql(
		'postgres', "CREATE TABLE $name (id int, body text);
		CREATE INDEX ON $name USING rag_bm25 (body) WITH (text_config = 'simple') $condition");
	$session->query('BEGIN; SAVEPOINT a');
	$session->query("INSERT INTO $name SELECT i, 'ghost' FROM generate_series(1, 2000) i");
	$session->query('ROLLBACK TO a');
	$node->safe_psql('postgres', "VACUUM $name; VACUUM $name");
	$session->query("INSERT INTO $name SELECT 20000 + i, $body FROM generate_series(1, 3000) i");
	$session->query('COMMIT');
	my $find = "SELECT count(*) FROM $name WHERE body \@\@\@ 'ghost'";
	$find .= ' AND id < 20000' if $condition ne '';
	is($node->safe_psql('postgres', "SET enable_seqscan = off; $find"),
		'0', "places of rows that were rolled back, and given to $name ones");
	is( $node->safe_psql('postgres', "SELECT documents FROM rag_bm25_info(
			(SELECT indexrelid FROM pg_index WHERE indrelid = '$name'::regclass))"),
		'0', "the index has no document of $name rows");
}

# -- serializable transactions
# ----------------------------------------

table('turns', 500);
my @sessions = (session($node), session($node));
for my $turn (@sessions)
{
	$turn->query('BEGIN ISOLATION LEVEL SERIALIZABLE');
	is( $turn->query("SELECT count(*) FROM (SELECT FROM turns ORDER BY body <@> 'mine' LIMIT 1) x"),
		'0', 'nobody has the turn yet');
	$turn->query("INSERT INTO turns(body) VALUES ('mine')");
}
$_->query('COMMIT') for @sessions;
is($node->safe_psql('postgres', "SELECT count(*) FROM turns WHERE body \@\@\@ 'mine'"),
	'1', 'only one of two serializable transactions that have not met commits');

# -- size
# ----------------------------------------

my $size = "SELECT pages FROM rag_bm25_info('large_body')";
$node->safe_psql(
	'postgres', "CREATE TABLE large (id serial, n int DEFAULT 0, body text);
	CREATE INDEX large_body ON large USING rag_bm25 (body) WITH (text_config = 'simple');
	CREATE TABLE texts AS SELECT sentence(20) FROM generate_series(1, 100000);
	COPY texts TO '$space/texts'");
my $before = $node->lsn('insert');
$node->safe_psql('postgres', "COPY large(body) FROM '$space/texts'");
my $log = $node->safe_psql('postgres', "SELECT pg_current_wal_insert_lsn() - '$before'");
my $loaded = $node->safe_psql('postgres', $size);
$before = $node->lsn('insert');
$node->safe_psql('postgres', "CREATE TABLE plain (id serial, n int DEFAULT 0, body text);
	COPY plain(body) FROM '$space/texts'");
my $plain = $node->safe_psql('postgres', "SELECT pg_current_wal_insert_lsn() - '$before'");
$node->safe_psql('postgres', 'REINDEX INDEX large_body');
my $fresh = $node->safe_psql('postgres', $size);
note "COPY: $loaded pages, REINDEX: $fresh; log: $log bytes, without the index $plain";
cmp_ok($loaded, '<=', 2 * $fresh, 'COPY of 100,000 rows makes at most twice the pages of REINDEX');
cmp_ok($log - $plain, '<=', 2 * 8192 * $fresh, 'and logs at most twice the index');

$node->safe_psql('postgres', 'TRUNCATE large; INSERT INTO large(body) SELECT sentence(60)
	FROM generate_series(1, 20000)');
for my $round (1 .. 10)
{
	$node->safe_psql('postgres', "UPDATE large SET n = n + 1; VACUUM (PARALLEL 0) large");
}
my $updated = $node->safe_psql('postgres', $size);
index_is_correct($node, 'large', 'all rows were updated 10 times');
$node->safe_psql('postgres', 'REINDEX INDEX large_body');
$fresh = $node->safe_psql('postgres', $size);
note "after 10 updates of all rows: $updated pages, REINDEX: $fresh";
cmp_ok($updated, '<=', 3 * $fresh, 'updates of all rows leave at most three times the pages');

$node->safe_psql('postgres', 'DELETE FROM large WHERE id % 100 > 0');
$node->safe_psql('postgres', 'VACUUM (PARALLEL 0) large');
like(
	$node->safe_psql('postgres', "SELECT hint FROM rag_bm25_info('large_body')"),
	qr/More than half of the index is free/,
	'a hint tells that much of the index is free');
$node->safe_psql('postgres', 'DELETE FROM large; VACUUM (PARALLEL 0) large');
$node->safe_psql('postgres', 'VACUUM (PARALLEL 0) large');
is($node->safe_psql('postgres', $size), '1', 'the file of an empty index is cut');
$node->safe_psql('postgres', 'INSERT INTO large(body) SELECT sentence(20)
	FROM generate_series(1, 2000)');
index_is_correct($node, 'large', 'the index is correct after that');

$node->stop;
done_testing();
