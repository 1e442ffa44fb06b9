# Sources that are synced without a schedule: after changes of their table and, without preload, on
# creation.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagTest ();
use RagWorkers;

my $folder = write_documents(temp_folder(), 2, 1);

subtest 'a table with triggers is synced automatically' => sub {
	my $node = rag_node('followed', scheduler => 1);
	my $found = sub {
		ask($node,
			"SELECT string_agg(content, ',' ORDER BY content) FROM rag.chunks
				WHERE source = 'notes'"
		);
	};
	$node->safe_psql(
		'postgres',
		q{CREATE TABLE notes (id int PRIMARY KEY, body text); INSERT INTO notes VALUES (1, 'One.');
		SELECT rag_create_source('notes', 'table',
		'{"relation": "notes", "contentColumns": ["body"], "sync": "trigger"}')}
	);
	await_value($found, 'One.', 'a table is synced on creation of its source');
	is( $node->safe_psql(
			'postgres',
			q{SELECT scheduled, c ->> 'reason' FROM rag.sources, jsonb_array_elements(conditions) c
				WHERE c ->> 'type' = 'AutoIndexerScheduled'}
		),
		't|Triggered',
		'the condition reports that changes start runs');
	$node->safe_psql('postgres', q{INSERT INTO notes VALUES (2, 'Two.')});
	await_value($found, 'One.,Two.', 'a change is indexed soon after its commit');
	is( $node->safe_psql(
			'postgres', q{SELECT string_agg(trigger, ' ' ORDER BY run_id) FROM rag.runs}),
		'create change',
		'a change starts a run with trigger change');
	$node->safe_psql('postgres', q{BEGIN; INSERT INTO notes VALUES (3, 'Three.'); ROLLBACK});
	# a burst of changes, each row in its own transaction
	$node->safe_psql('postgres', join "\n",
		map { "INSERT INTO notes VALUES ($_, 'Note $_.');" } 10 .. 209);
	await_true(
		$node, 'postgres',
		"count(*) = 202 FROM rag.documents WHERE source = 'notes'",
		'many small transactions are indexed completely');
	cmp_ok($node->safe_psql('postgres', q{SELECT count(*) FROM rag.runs WHERE trigger = 'change'}),
		'<=', 6, 'many small transactions need few runs');
	all_runs_ended($node, 'postgres', 'no run is active in the end');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM rag_internal.table_change'),
		'0', 'no change is left in the queue');

	$node->safe_psql('postgres',
		q{SELECT rag_suspend('notes'); UPDATE notes SET body = 'Due.' WHERE id = 1});
	$node->safe_psql('postgres', q{SELECT rag_resume('notes')});
	await_true(
		$node, 'postgres',
		q{count(*) = 1 FROM rag.chunks WHERE content = 'Due.'},
		'changes of a suspended source are indexed after rag_resume');
	$node->safe_psql('postgres', q{UPDATE notes SET body = 'Last.' WHERE id = 1});
	$node->stop('immediate');
	$node->start;
	await_true(
		$node, 'postgres',
		q{count(*) = 1 FROM rag.chunks WHERE content = 'Last.'},
		'changes are indexed after a crash');
	configure($node, 'rag.scheduler', 'off');
	$node->safe_psql('postgres',
		qq{SELECT rag_create_source('rests', 'folder', '{"path": "$folder"}')});
	like(
		$node->safe_psql(
			'postgres', q{SELECT conditions::text FROM rag.sources WHERE name = 'rests'}),
		qr/not synced yet: rag.scheduler is off/,
		'a source that is not synced automatically reports the reason');
	$node->stop;
};

subtest 'sources without preload' => sub {
	my $node = rag_node('not_preloaded', preload => 0);
	$node->safe_psql('postgres', join ';',
		map { qq{SELECT rag_create_source('new-$_', 'folder', '{"path": "$folder"}')} } 1 .. 3);
	await_true(
		$node, 'postgres',
		"bool_and(phase = 'Completed') AND count(*) = 3 FROM rag.sources",
		'sources are synced on creation without preload');
	is( $node->safe_psql(
			'postgres', q{SELECT string_agg(DISTINCT trigger, ' '), count(*) FROM rag.runs}),
		'create|3',
		'once');
	my $made = run_sql(
		$node, q{CREATE TABLE notes (id int PRIMARY KEY, body text);
		SELECT rag_create_source('notes', 'table',
		'{"relation": "notes", "contentColumns": ["body"], "sync": "trigger"}')}
	);
	my $not_synced = 'source "notes" is not synced when its table changes:'
	  . ' rag is not in shared_preload_libraries';
	like($made->{err}, qr/\Q$not_synced\E/,
		'rag_create_source warns that changes do not start runs');
	is( $node->safe_psql('postgres', 'SELECT rag.why_idle()'),
		'rag is not in shared_preload_libraries',
		'rag.why_idle() reports missing shared_preload_libraries');
	await(
		'the worker leaves',
		sub {
			ask($node, "SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'rag %'") eq
			  '0';
		});
	$node->safe_psql('postgres',
		q{SELECT rag_create_source('late', 'folder', '{"path": "/none"}', suspend => true)});
	is($node->safe_psql('postgres', q{SELECT phase FROM rag.sources WHERE name = 'late'}),
		'Suspended', 'a suspended source is created without a warning');
	$node->stop;
};
done_testing();
