# Tables as sources while they are written to, across crashes, and in a dump. In the end the
# documents are the rows, and no writer is disturbed.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;

my $node = rag_node('tables');
my $witness = witness($node);
my $counts =
  'documents_added, documents_updated, documents_deleted, documents_unchanged, documents_failed';

# Rows without document, documents without row, and documents that differ from their row.
sub differences
{
	my ($source, $table, $database) = @_;
	return $node->safe_psql(
		$database // 'postgres', "SELECT count(*) FROM
		(SELECT 'table://public.$table/' || id AS uri, body FROM $table WHERE body ~ '\\S') r FULL
		JOIN
		(SELECT uri, content FROM rag.documents WHERE source = '$source' AND status = 'active') d
		USING (uri)
		WHERE r.body IS DISTINCT FROM d.content");
}

sub did { my ($source) = @_; return run_row($node, $source, $counts) =~ tr/|/ /r }

# -- four sessions write during syncs
$node->safe_psql(
	'postgres', q{
	CREATE TABLE enough ();
	CREATE TABLE items (id int PRIMARY KEY, body text, views int DEFAULT 0);
	INSERT INTO items SELECT w * 1000000 + i, 'Item ' || i || ' of ' || w
	FROM generate_series(1, 4) w, generate_series(1, 40) i;
	SELECT rag_create_source('scanned', 'table', '{"relation": "items"}'),
	rag_create_source('noted', 'table', '{"relation": "items", "sync": "trigger"}')}
);

sub writer
{
	my ($w) = @_;
	return start_sql(
		$node, qq{DO \$\$
	DECLARE
		base int := $w * 1000000;
		chosen int;
		n int := 0;
	BEGIN
		WHILE n < 250 OR NOT EXISTS (SELECT FROM enough) LOOP
			n := n + 1;
			SELECT id INTO chosen FROM items WHERE id BETWEEN base AND base + 999999
			ORDER BY random() LIMIT 1;
			CASE n % 7
				WHEN 0 THEN INSERT INTO items VALUES (base + 1000 + n, 'New ' || n || ' of $w');
				WHEN 1, 2 THEN UPDATE items SET body = 'Changed ' || n || ' by $w'
				WHERE id = chosen;
				WHEN 3 THEN UPDATE items SET id = base + 500000 + n WHERE id = chosen;
				WHEN 4 THEN UPDATE items SET views = views + 1
				WHERE id BETWEEN base AND base + 999999;
				WHEN 5 THEN DELETE FROM items WHERE id = chosen AND n % 3 = 0;
				ELSE
					UPDATE items SET body = CASE WHEN n % 2 = 0 THEN '' END
					WHERE id = chosen AND n % 4 = 0;
					IF n % 5 = 0 THEN ROLLBACK; END IF;
			END CASE;
			IF $w = 1 AND n = 120 THEN TRUNCATE items; END IF;
			COMMIT;
			PERFORM pg_sleep(0.01);
		END LOOP;
	END \$\$});
}
my @writers = map { writer($_) } 1 .. 4;
for (1 .. 10)
{
	sync_ok($node, $_, "sync $_ succeeds while the table is written to") for qw(scanned noted);
}
is(scalar(grep { $_->is_waiting } @writers), 4, 'all writers are still running after the syncs');
$node->safe_psql('postgres', 'INSERT INTO enough DEFAULT VALUES');
for (@writers)
{
	my $result = $_->finish;
	is($result->{rc}, 0, 'a writer has no errors') or diag($result->{err});
	is($result->{err}, '', 'a writer gets no messages');
}
sync_ok($node, $_) for qw(scanned noted);
is(differences($_, 'items'), '0', "$_: the documents are the rows after one more sync")
  for qw(scanned noted);
is(ask($node, 'SELECT count(*)
    FROM rag_internal.table_change'), '0', 'no change is left in the queue');
sync_ok($node, 'noted');
is(did('noted'), '0 0 0 0 0', 'a sync without changes reads nothing');

# -- an open transaction
my $open = session($node);
$open->query("BEGIN; INSERT INTO items VALUES (1, 'Committed late')");
$node->safe_psql('postgres', "INSERT INTO items VALUES (2, 'Committed early')");
sync_ok($node, 'noted');
is(did('noted'), '1 0 0 0 0', 'committed rows are indexed during an open transaction');
$open->query('COMMIT');
sync_ok($node, 'noted');
is(did('noted'), '1 0 0 0 0', 'the next sync indexes rows committed since');
is(differences('noted', 'items'), '0', 'no row is lost');

# -- rows change while the engine embeds them; no snapshot is held meanwhile
my $embed = engine_pid($node, 'embed');
$node->safe_psql('postgres', "UPDATE items SET body = 'Version two of ' || id WHERE body ~ '\\S'");
freeze($embed);
my $sync = start_sql($node, "SELECT rag_sync('noted')");
await(
	'the run waits for the engine',
	sub {
		ask($node, "SELECT count(*) FROM pg_stat_activity
	WHERE backend_type = 'rag runner' AND wait_event = 'Extension' AND state = 'active'") eq '1';
	});
is( ask($node,
		"SELECT backend_xmin IS NULL AND backend_xid IS NULL FROM pg_stat_activity
			WHERE backend_type = 'rag runner'"
	),
	't',
	'a run that waits for the engine holds no snapshot');
$node->safe_psql('postgres', "UPDATE items SET body = 'Version three of ' || id WHERE id = 2");
thaw($embed);
is($sync->finish->{rc}, 0, 'a row can be changed during the sync');
sync_ok($node, 'noted');
is(differences('noted', 'items'), '0', 'the next sync indexes a row that changed during the sync');

# -- a run that is cancelled leaves the queue
$node->safe_psql('postgres', "UPDATE items SET body = 'Version four of ' || id WHERE body ~ '\\S'");
freeze($embed);
$sync = start_sql($node, "SELECT rag_sync('noted')");
$sync->await_waiting;
await('the run is there', sub { ask($node, 'SELECT count(*) FROM rag.progress') });
$node->safe_psql('postgres', 'SELECT pg_cancel_backend(' . $sync->backend . ')');
isnt($sync->finish->{rc}, 0, 'a sync of a table can be cancelled');
thaw($embed);
await('its run has ended', sub { ask($node, 'SELECT count(*) FROM rag.progress') eq '0' });
cmp_ok(ask($node, 'SELECT count(*) FROM rag_internal.table_change'),
	'>', 0, 'a cancelled sync keeps the queue');
sync_ok($node, 'noted');
is(differences('noted', 'items'), '0', 'the next sync indexes what the cancelled sync did not');

# -- a failed document is retried without a change of its row
configure($node, 'rag.max_file_size', '1kB');
$node->safe_psql('postgres', "INSERT INTO items VALUES (3, repeat('Too long. ', 200))");
run_sql($node, "SELECT rag_sync('noted')");
is(did('noted'), '0 0 0 0 1', 'a row that is too large fails');
is( ask($node, "SELECT message FROM rag.run_errors WHERE uri = 'table://public.items/3'"),
	'the row has 2000 bytes of text, more than the limit of 1024 bytes',
	'a row that is too large has an error message');
configure($node, 'rag.max_file_size');
sync_ok($node, 'noted');
is(did('noted'), '0 1 0 0 0',
	'a row that was too large is indexed after rag.max_file_size was increased');
is(differences('noted', 'items'), '0', 'all rows are documents');
$node->safe_psql('postgres', "SELECT rag_drop_source('scanned', keep_documents => false)");
same_cluster($witness, 'concurrent writers, cancelled syncs and large rows');

# -- crashes
for my $when ('between syncs', 'during a sync')
{
	$node->safe_psql(
		'postgres',
		"UPDATE items SET body = body || ' ' || '$when' WHERE body ~ '\\S' AND id % 2 = 0;
			INSERT INTO items SELECT max(id) + 1, '$when' FROM items"
	);
	if ($when eq 'during a sync')
	{
		$embed = engine_pid($node, 'embed');
		freeze($embed);
		$node->safe_psql('postgres', "SELECT rag_sync('noted', wait => false)");
		await('the run is there', sub { ask($node, 'SELECT count(*) FROM rag.progress') });
	}
	$node->safe_psql('postgres', 'SELECT pg_switch_wal()');
	my $queued = $node->safe_psql('postgres', 'SELECT count(*) FROM rag_internal.table_change');
	$node->kill9;
	await(
		'all processes of the server have ended',
		sub {
			!grep { (readlink("$_/cwd") // '') eq $node->data_dir } glob '/proc/[0-9]*';
		});
	unlink $node->data_dir . '/postmaster.pid', $node->host . '/.s.PGSQL.' . $node->port . '.lock';
	$node->start;
	is($node->safe_psql('postgres', 'SELECT count(*) FROM rag_internal.table_change'),
		$queued, "$when: the queue survives a crash");
	sync_ok($node, 'noted', "$when: the next sync succeeds");
	is(differences('noted', 'items'), '0', "$when: the documents are the rows after the next sync");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM rag_internal.table_change'),
		'0', "$when: the queue is empty after the next sync");
}

# -- many rows, read in pages, with a composite key whose index has another column order
$node->safe_psql(
	'postgres', q{
	CREATE TABLE pages (b int, a text, body text, PRIMARY KEY (a, b));
	INSERT INTO pages SELECT i, (i % 3)::text, 'The same text in every row.'
	FROM generate_series(1, 3500) i;
	SELECT rag_create_source('pages', 'table', '{"relation": "pages", "idColumns": ["b", "a"]}')});
sync_ok($node, 'pages');
is(did('pages'), '3500 0 0 0 0', 'a table of several pages of rows is indexed completely');
is(run_row($node, 'pages', 'chunks_embedded'),
	'1', 'equal texts of several pages are embedded once');
$node->safe_psql('postgres',
	'DELETE FROM pages WHERE b % 10 = 0; UPDATE pages SET a = 3 WHERE b % 100 = 1');
sync_ok($node, 'pages');
is(did('pages'), '35 0 385 3115 0', 'changes in several pages of rows are indexed');
$node->safe_psql('postgres', "SELECT rag_drop_source('pages', keep_documents => false)");

# -- a dump
my $file = temp_folder() . '/dump';
my @connect = ('--host', $node->host, '--port', $node->port, '--username', scalar getpwuid $>);
$node->safe_psql(
	'postgres',
	"UPDATE items SET body = 'Not synced yet' WHERE id = 2;
		ALTER TABLE items RENAME COLUMN views TO looks"
);
my ($out, $err);
is( IPC::Run::run(
		[ 'pg_dump', @connect, '--format=custom', '--file', $file, 'postgres' ],
		'>', \$out, '2>', \$err),
	1,
	'pg_dump succeeds');
is($err, '', 'pg_dump prints nothing');
$node->safe_psql('postgres', 'CREATE DATABASE restored TEMPLATE template0');
is( IPC::Run::run(
		[ 'pg_restore', @connect, '--exit-on-error', '--dbname', 'restored', $file ],
		'>', \$out, '2>', \$err),
	1,
	'the restore succeeds');
is($err, '', 'the restore prints nothing');
my $did = "SELECT concat_ws(' ', $counts) FROM rag.runs ORDER BY run_id DESC LIMIT 1";
my $rows = $node->safe_psql('restored', "SELECT count(*) FROM items WHERE body ~ '\\S'");
is( $node->safe_psql(
		'restored',
		'SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal AND tgrelid = \'items\'::regclass'),
	'5',
	'the restored table has its triggers');
is(run_sql($node, "SELECT rag_sync('noted')", database => 'restored')->{rc},
	0, 'a sync of the restored source succeeds');
is( $node->safe_psql('restored', $did),
	'0 1 0 ' . ($rows - 1) . ' 0',
	'the first sync after a restore reads the whole table and embeds only new rows');
$node->safe_psql('restored', "UPDATE items SET body = 'Changed in the copy' WHERE id = 2");
is(run_sql($node, "SELECT rag_sync('noted')", database => 'restored')->{rc},
	0, 'a second sync of the restored source succeeds');
is($node->safe_psql('restored', $did),
	'0 1 0 0 0', 'a second sync of the restored source reads only changed rows');
is(differences('noted', 'items', 'restored'),
	'0', 'the documents of the restored source are the rows');

# -- the extension is dropped, the table remains
error_like(
	run_sql($node, 'DROP EXTENSION rag', database => 'restored'),
	'2BP01',
	'cannot drop extension rag',
	'CASCADE',
	'DROP EXTENSION without CASCADE is rejected while triggers need the extension');
$node->safe_psql(
	'restored',
	"SET client_min_messages = warning; DROP EXTENSION rag CASCADE; UPDATE items SET body = 'Free'
		WHERE id = 2"
);
is($node->safe_psql('restored', 'SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal'),
	'0', 'a table can be written to after DROP EXTENSION CASCADE');
$node->safe_psql('postgres', 'DROP DATABASE restored');

$node->stop;
done_testing();
