# Drift on a real cluster: manual changes of stored documents are detected automatically, named, and
# handled by the policy of the source.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;
use RagTest ();

my $node = rag_node('drift', scheduler => 1, conf => 'rag.drift_check_interval = 1');
my $documents = 6;
my %folder;

# Creates a source that has completed its first run and was checked since.
sub create_source
{
	my ($name, $policy) = @_;
	$folder{$name} = write_documents(temp_folder(), $documents, 2, $name);
	$node->safe_psql(
		'postgres', "BEGIN; SELECT rag_create_collection('c-$name');
		SELECT rag_create_source('$name', 'folder', '{\"path\": \"$folder{$name}\"}', 'c-$name');
		UPDATE rag_internal.source SET drift_policy = '$policy' WHERE name = '$name'; COMMIT");
	await(
		"$name is indexed",
		sub {
			ask($node, "SELECT phase = 'Completed' FROM rag.sources WHERE name = '$name'") eq 't';
		});
	return;
}

# Waits for a status of the condition. Returns status, reason and message.
sub await_condition
{
	my ($name, $status, $reason) = @_;
	return await(
		"drift of $name is $status",
		sub {
			my $found = ask(
				$node,
				"SELECT concat_ws('|', c ->> 'status', c ->> 'reason', c ->> 'message')
					FROM rag.sources, jsonb_array_elements(conditions) c
			WHERE name = '$name' AND c ->> 'type' = 'AutoIndexerDriftDetected'");
			$found =~ /^$status\|$reason\|/ && $found;
		});
}

# Waits until the condition of a source has had this reason since a point in time, even if it has
# another one now.
sub await_reason
{
	my ($name, $reason, $since) = @_;
	return await(
		"$name is $reason",
		sub {
			ask($node,
				"SELECT message FROM seen WHERE name = '$name' AND reason = '$reason' AND n > $since
					LIMIT 1"
			);
		});
}

sub now_seen { return ask($node, 'SELECT coalesce(max(n), 0) FROM seen') }

# Waits until a check has started and ended after all that is committed now. The second check from
# now on has started after this call.
sub await_check
{
	my ($name) = @_;
	for (1 .. 2)
	{
		my $checked =
		  "SELECT coalesce(drift_checked_at::text, '') FROM rag.sources WHERE name = '$name'";
		my $before = ask($node, $checked);
		await("$name is checked", sub { ask($node, $checked) ne $before });
	}
	return;
}

sub runs
{
	my ($name) = @_;
	return ask($node, "SELECT count(*) FROM rag.runs WHERE source = '$name'");
}

# every condition that was ever set
$node->safe_psql(
	'postgres', q{CREATE TABLE seen (n serial, name text, reason text, message text);
	CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		INSERT INTO public.seen (name, reason, message) SELECT NEW.name, c ->> 'reason',
		c ->> 'message'
		FROM pg_catalog.jsonb_array_elements(NEW.conditions) c
		WHERE c ->> 'type' = 'AutoIndexerDriftDetected';
		RETURN NULL;
	END $$;
	CREATE TRIGGER see AFTER UPDATE OF conditions ON rag_internal.source FOR EACH ROW
	WHEN (NEW.conditions <> OLD.conditions) EXECUTE FUNCTION see()}
);

# -- auto: only drifted documents are indexed again
create_source('auto', 'auto');
like(
	await_condition('auto', 'False', 'NoDrift'),
	qr/the stored documents are those that were indexed/,
	'no drift is found after the first run');
is(runs('auto'), '1', 'no second run follows without drift');

my %tampering = (
	'a deleted document' =>
	  [ "DELETE FROM rag.documents WHERE uri LIKE '%/doc-001.md'", 'added', '1 document missing' ],
	'a changed text' => [
		"UPDATE rag.documents SET content = 'x' WHERE uri LIKE '%/doc-002.md'",
		'updated', '1 document changed'
	],
	'a changed chunk' => [
		"UPDATE rag.chunks SET content = 'x' WHERE uri LIKE '%/doc-003.md' AND chunk_index = 1",
		'updated', '1 document changed'
	],
	'a lost chunk' => [
		"DELETE FROM rag.chunks WHERE uri LIKE '%/doc-004.md' AND chunk_index = 0",
		'updated', '1 document with lost chunks'
	],
	'a document that nobody indexed' => [
		"INSERT INTO rag.documents (document_id, collection, source, uri, status)
			VALUES (gen_random_uuid(), 'c-auto', 'auto', 'file:///doc-005.md', 'active')",
		'deleted',
		'1 document unexpected'
	],);
# everything that is stored
my $stored = "SELECT md5(string_agg(concat_ws('|', uri, chunk_id, chunk_index, content, embedding,
		embedding_key, title, metadata), chr(10)
	ORDER BY uri COLLATE \"C\", chunk_index)) FROM rag.chunks WHERE source = 'auto'";
my $before = $node->safe_psql('postgres', $stored);
for my $what (sort keys %tampering)
{
	my ($statement, $counted, $message) = @{ $tampering{$what} };
	my ($uri) = $statement =~ /(doc-\d+\.md)/;
	my $last =
	  $node->safe_psql('postgres', "SELECT last_run_id FROM rag.sources WHERE name = 'auto'");
	my $since = now_seen();
	$node->safe_psql('postgres', $statement);
	like(
		await_reason('auto', 'DriftDetected', $since),
		qr{^$message: file://\S*/$uri$},
		"$what is detected and named");
	await_reason('auto', 'Reindexed', $since);
	my $run = $node->safe_psql(
		'postgres',
		"SELECT run_id, trigger, documents_$counted,
			documents_added + documents_updated + documents_deleted, documents_unchanged
		FROM rag.runs WHERE run_id > $last AND source = 'auto'");
	my $unchanged = $counted eq 'deleted' ? $documents : $documents - 1;
	like(
		$run,
		qr/^\d+\|drift\|1\|1\|$unchanged$/,
		"$what: one run indexes it again and leaves the rest unchanged");
	is($node->safe_psql('postgres', $stored), $before, "$what: the stored documents are restored");
	await_condition('auto', 'False', 'NoDrift');
	is( $node->safe_psql(
			'postgres',
			'SELECT count(*) FROM rag.runs WHERE run_id > '
			  . (split /\|/, $run)[0]
			  . " AND source = 'auto'"),
		'0',
		"$what: no further run follows");
}

# -- manual: drift is reported, and the next run repairs it
create_source('manual', 'manual');
await_condition('manual', 'False', 'NoDrift');
# in one transaction, so that no check sees only half of it
$node->safe_psql(
	'postgres',
	"BEGIN; DELETE FROM rag.documents WHERE source = 'manual' AND uri LIKE '%/doc-001.md';
	UPDATE rag.chunks SET content = 'x' WHERE source = 'manual' AND uri LIKE '%/doc-002.md'
	AND chunk_index = 0; COMMIT"
);
my ($first, $second) = map { qr{file://\Q$folder{manual}\E/$_.md} } qw(doc-001 doc-002);
my $condition = await_condition('manual', 'True', 'DriftDetected');
like(
	$condition,
	qr{\|1 document missing, 1 document changed: $first, $second$},
	'drift_policy manual: the condition names the drifted documents');
await_check('manual');
is(runs('manual'), '1', 'drift_policy manual: no run follows automatically');
is(await_condition('manual', 'True', 'DriftDetected'),
	$condition, 'drift_policy manual: the condition stays');
is( $node->safe_psql(
		'postgres',
		"SELECT content FROM rag.chunks WHERE source = 'manual' AND uri LIKE '%/doc-002.md'
			AND chunk_index = 0"
	),
	'x',
	'drift_policy manual: the stored documents are not changed');
my $run = $node->safe_psql('postgres', "SELECT rag_sync('manual', wait => false)");
$node->safe_psql('postgres', "SELECT rag_wait($run)");
is( $node->safe_psql(
		'postgres',
		"SELECT phase, trigger, documents_added, documents_updated, documents_unchanged
			FROM rag.runs WHERE run_id = $run"
	),
	"Completed|manual|1|1|" . ($documents - 2),
	'drift_policy manual: rag_sync repairs the drift');
await_condition('manual', 'False', '(Reindexed|NoDrift)');

# -- ignore: only rag_check_drift checks
create_source('ignore', 'ignore');
$node->safe_psql('postgres',
	"DELETE FROM rag.documents WHERE source = 'ignore' AND uri LIKE '%/doc-001.md'");
# the other sources are checked meanwhile
await_check('manual');
is( $node->safe_psql(
		'postgres', "SELECT drift_checked_at IS NULL FROM rag.sources WHERE name = 'ignore'"),
	't',
	'drift_policy ignore: no automatic check');
like(
	run_sql($node,
		"SELECT expected, actual, drifted, detail ->> 'missing' FROM rag_check_drift('ignore')")
	  ->{out},
	qr{^6\|5\|t\|\["file://\Q$folder{ignore}\E/doc-001.md"\]$},
	'drift_policy ignore: rag_check_drift finds the drift');
is(runs('ignore'), '1', 'drift_policy ignore: no run follows a check');

# -- rag_suspend stops checks, rag_resume starts them again
create_source('resting', 'auto');
await_condition('resting', 'False', 'NoDrift');
$node->safe_psql('postgres', "UPDATE rag_internal.source SET suspend = true
    WHERE name = 'resting'");
# only one check runs at a time, so an earlier check ends before the next one of another source
await_check('manual');
my $checked =
  $node->safe_psql('postgres', "SELECT drift_checked_at FROM rag.sources WHERE name = 'resting'");
$node->safe_psql('postgres',
	"DELETE FROM rag.documents WHERE source = 'resting' AND uri LIKE '%/doc-001.md'");
await_check('manual');
is( $node->safe_psql('postgres', "SELECT drift_checked_at FROM rag.sources WHERE name = 'resting'"),
	$checked,
	'a suspended source is not checked automatically');
is(run_sql($node, "SELECT drifted FROM rag_check_drift('resting')")->{out},
	't', 'rag_check_drift checks a suspended source');
is(runs('resting'), '1', 'no run of a suspended source follows a check');
my $since = now_seen();
$node->safe_psql('postgres', "UPDATE rag_internal.source SET suspend = false
    WHERE name = 'resting'");
await_reason('resting', 'Reindexed', $since);
is( $node->safe_psql(
		'postgres',
		"SELECT documents_added, documents_unchanged FROM rag.runs WHERE source = 'resting'
			ORDER BY run_id DESC LIMIT 1"
	),
	'1|' . ($documents - 1),
	'the drift of a resumed source is repaired');

# -- rag_check_drift queues a run, and is rejected during a run
configure($node, 'rag.drift_check_interval', '0');
# The scheduler may be about to start a check. It reads the setting before it starts a queued run,
# at the latest before the second one.
for (1 .. 2)
{
	my $run = $node->safe_psql('postgres', "SELECT rag_sync('auto', wait => false)");
	is($node->safe_psql('postgres', "SELECT rag_wait($run)"),
		'Completed', 'a scheduler without drift checks completes queued runs');
}
await(
	'the last check has ended',
	sub {
		ask($node, "SELECT count(*) FROM pg_stat_activity
			WHERE backend_type = 'rag runner'") eq '0';
	});
$node->safe_psql('postgres',
	"DELETE FROM rag.chunks WHERE source = 'resting' AND uri LIKE '%/doc-003.md'");
my $check = run_sql($node, "SELECT drifted FROM rag_check_drift('resting')");
like(
	$check->{err},
	qr/NOTICE:.*resting: run \d+ is queued to index the drifted documents again/,
	'rag_check_drift queues a run');
await_condition('resting', 'False', 'Reindexed');
is( $node->safe_psql(
		'postgres',
		"SELECT trigger, documents_updated, documents_unchanged FROM rag.runs
			WHERE source = 'resting' ORDER BY run_id DESC LIMIT 1"
	),
	'drift|1|' . ($documents - 1),
	'the run queued by rag_check_drift repairs the drift');
write_documents($folder{resting}, $documents, 8, 'new');
my $engine = engine_pid($node, 'embed');
freeze($engine);
$run = $node->safe_psql('postgres', "SELECT rag_sync('resting', wait => false)");
await('the run is under way',
	sub { ask($node, "SELECT phase = 'Running' FROM rag.runs WHERE run_id = $run") eq 't' });
error_like(
	run_sql($node, "SELECT * FROM rag_check_drift('resting')"),
	'55006', qr/source "resting" is being synced/,
	qr/rag_wait\($run\)/, 'rag_check_drift is rejected during a run');
thaw($engine);
$node->safe_psql('postgres', "SELECT rag_wait($run)");
is(run_sql($node, "SELECT expected, actual, drifted FROM rag_check_drift('resting')")->{out},
	'6|6|f', 'no drift is found after the run');

# -- an interrupted run causes no drift: digests are written with each document
write_documents($folder{resting}, $documents, 8, 'newer');
freeze($engine = engine_pid($node, 'embed'));
$run = $node->safe_psql('postgres', "SELECT rag_sync('resting', wait => false)");
await('the run is under way',
	sub { ask($node, "SELECT phase = 'Running' FROM rag.runs WHERE run_id = $run") eq 't' });
$node->stop('immediate');
thaw($engine);
$node->start;
await(
	'the run is ended',
	sub {
		ask($node, "SELECT phase IN ('Completed', 'Failed') FROM rag.runs WHERE run_id = $run") eq
		  't';
	});
await(
	'the retry completes',
	sub { ask($node, "SELECT phase = 'Completed' FROM rag.sources WHERE name = 'resting'") eq 't' }
);
is(run_sql($node, "SELECT expected, actual, drifted FROM rag_check_drift('resting')")->{out},
	'6|6|f', 'a crash during a run causes no drift');

# -- a dump restored into another database
$node->safe_psql('postgres', 'DROP FUNCTION see CASCADE; DROP TABLE seen');
my $dump = temp_folder() . '/dump';
my @connect = ('--host', $node->host, '--port', $node->port, '--username', scalar getpwuid $>);
$node->safe_psql('postgres', 'CREATE DATABASE restored TEMPLATE template0');
command_ok([ 'pg_dump', @connect, '--format=custom', '--file', $dump, 'postgres' ], 'pg_dump');
command_ok([ 'pg_restore', @connect, '--exit-on-error', '--dbname', 'restored', $dump ],
	'pg_restore');
is( $node->safe_psql(
		'restored',
		"SELECT count(*), count(*) FILTER (WHERE drifted) FROM rag.sources, rag_check_drift(name)
			WHERE name <> 'ignore'"
	),
	'3|0',
	'a restored database has no drift');

# -- a check that fails is logged and postponed
configure($node, 'rag.drift_check_interval', '3600');
my $logged = -s $node->logfile;
# removes earlier results, which the test would see otherwise
$node->safe_psql(
	'postgres', "SELECT rag_check_drift('manual');
	ALTER FUNCTION rag_internal.drifted_documents(text, text) RENAME TO hidden;
	UPDATE rag_internal.source SET drift_checked_at = now() - interval '2 hours'
		WHERE name = 'manual'");
configure($node, 'rag.drift_check_interval', '3601');
like(await_condition('manual', 'Unknown', 'CheckFailed'),
	qr/drifted_documents/, 'a failed check reports the reason');
is( $node->safe_psql(
		'postgres',
		"SELECT drift_checked_at > now() - interval '1 hour' FROM rag.sources WHERE name = 'manual'"
	),
	't',
	'a failed check is postponed');
ok( RagTest::wait_until(
		sub {
			slurp_file($node->logfile, $logged) =~
			  /Check of source "manual" could not be carried out/;
		}),
	'the log reports a failed check');
$node->safe_psql('postgres', 'ALTER FUNCTION rag_internal.hidden(text, text) RENAME TO
    drifted_documents');

# -- a long check can be cancelled, and delays no other source
$node->safe_psql(
	'postgres',
	q{CREATE TABLE gate (); ALTER FUNCTION rag_internal.drifted_documents(text, text) RENAME TO
		hidden;
	CREATE FUNCTION rag_internal.drifted_documents(of_collection text, of_source text)
	RETURNS TABLE (document_id uuid, uri text, kind text, entry jsonb, is_stored boolean)
	LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(3600); END $$;
	UPDATE rag_internal.source SET drift_checked_at = now() - interval '2 hours'
		WHERE name = 'manual'});
configure($node, 'rag.drift_check_interval', '3600');
my $checking =
  "SELECT pid FROM pg_stat_activity WHERE backend_type = 'rag runner' AND wait_event = 'PgSleep'";
my $pid = await('a check is under way', sub { ask($node, $checking) });
like(
	$node->safe_psql('postgres', "SELECT query FROM pg_stat_activity WHERE pid = $pid"),
	qr/checking manual for drift/,
	'pg_stat_activity shows the check');
$run = $node->safe_psql('postgres', "SELECT rag_sync('resting', wait => false)");
is($node->safe_psql('postgres', "SELECT rag_wait($run)"),
	'Completed', 'another source can be synced during a check');
$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
await('the check has ended', sub { ask($node, $checking) eq '' });
ok(RagTest::wait_until(sub { await_condition('manual', 'Unknown', 'CheckFailed') =~ /cancel/ }),
	'a cancelled check reports the cancellation');
$node->safe_psql(
	'postgres',
	"UPDATE rag_internal.source
		SET timeout = '1 second', drift_checked_at = now() - interval '2 hours',
	conditions = '[]' WHERE name = 'manual'");
configure($node, 'rag.drift_check_interval', '3601');
like(await_condition('manual', 'Unknown', 'CheckFailed'),
	qr/timeout|cancel/, 'a check ends at the timeout of the source');

$node->stop;
done_testing();
