# Sources are altered, suspended and resumed while a scheduler is running, also during their runs.
use strict;
use warnings;

use RagCluster;
use RagTest ();
use Test::More;

my $node = rag_node('definitions', scheduler => 1, conf => "rag.retry_delay = 50ms\n");
my $witness = witness($node);

sub sql { return $node->safe_psql('postgres', @_) }

sub await_row
{
	my ($source, $columns, $expected, $name) = @_;
	my $seen = '';
	my $came = RagTest::wait_until(
		sub {
			($seen = sql("SELECT $columns FROM rag.sources WHERE name = '$source'")) eq $expected;
		});
	return ok($came, $name)
	  || diag("$seen\n" . sql('SELECT * FROM rag.sources; SELECT * FROM rag.runs'));
}

sub runs
{
	return sql(
		"SELECT string_agg(trigger || ' ' || generation || ' ' || phase, ', ' ORDER BY run_id)
			FROM rag.runs WHERE source = '$_[0]'"
	);
}

my $first = write_documents(temp_folder(), 3, 1, 'first');
my $second = write_documents(temp_folder(), 2, 1, 'second');
my $status = 'phase, observed_generation, generation, next_scheduled_run';

subtest 'a source without a schedule is synced after changes' => sub {
	sql(qq{SELECT rag_create_source('docs', 'folder', '{"path": "$first"}')});
	await_row('docs', $status, 'Completed|1|1|',
		'a source without a schedule is synced on creation');
	sql(qq{SELECT rag_alter_source('docs', spec => '{"path": "$second"}')});
	await_row('docs', $status, 'Completed|2|2|',
		'a source without a schedule is synced after rag_alter_source');
	is( sql(    q{SELECT count(*), count(*) FILTER (WHERE uri LIKE 'file://}
			  . $second
			  . q{/%') FROM rag.documents}),
		'2|2',
		'documents that the changed source no longer contains are removed');
	sql(q{SELECT rag_alter_source('docs', max_retries => 0, schedule => '@yearly')});
	sql(q{SELECT rag_alter_source('docs', schedule => '')});
	is( runs('docs'),
		'create 1 Completed, create 2 Completed',
		'a change that does not affect the documents starts no run');
	is(sql("SELECT $status FROM rag.sources"),
		'Completed|2|4|', 'the generation is higher than observed_generation');
};

subtest 'a suspended source is synced after rag_resume' => sub {
	sql(qq{SELECT rag_create_source('later', 'folder', '{"path": "$first"}', suspend => true)});
	sql(qq{SELECT rag_create_source('now', 'folder', '{"path": "$first"}')});
	await_row('now', 'phase', 'Completed', 'another source is synced meanwhile');
	is(sql(q{SELECT phase, last_run_id FROM rag.sources WHERE name = 'later'}),
		'Suspended|', 'a suspended source is not synced');
	sql(q{SELECT rag_resume('later')});
	await_row('later', $status, 'Completed|1|1|', 'a resumed source is synced');
	sql(q{SELECT rag_suspend('later')});
	sql(qq{SELECT rag_alter_source('later', spec => '{"path": "$second"}')});
	sql(q{SELECT rag_resume('later')});
	await_row('later', $status, 'Completed|2|2|',
		'a source that was altered and resumed is synced');
	sql(q{SELECT rag_suspend('later')});
	sql(q{SELECT rag_resume('later')});
	sql(qq{SELECT rag_alter_source('now', spec => '{"path": "$second"}')});
	await_row('now', $status, 'Completed|2|2|', 'another source is synced again');
	is( runs('later'),
		'create 1 Completed, create 2 Completed',
		'a source that was only suspended and resumed is not synced again');
};

subtest 'a run with an outdated definition' => sub {
	forget_collection($node);
	my $embed = engine_pid($node, 'embed');
	# the run waits for its embeddings
	freeze($embed);
	sql(qq{SELECT rag_alter_source('docs', spec => '{"path": "$first"}')});
	await_row('docs', 'phase', 'Running', 'a run is in progress');
	my $old = sql(q{SELECT current_run_id FROM rag.sources WHERE name = 'docs'});
	sql(qq{SELECT rag_alter_source('docs', spec => '{"path": "$second"}')});
	sql(q{SELECT rag_suspend('docs')});
	is( sql(q{SELECT phase, suspend, observed_generation, generation FROM rag.sources
		WHERE name = 'docs'}
		),
		'Running|t|2|6',
		'neither rag_alter_source nor rag_suspend ends the run');
	thaw($embed);
	await_row(
		'docs', 'phase, observed_generation, generation',
		'Suspended|2|6', 'the end of the run is not the status of the new definition');
	is(sql("SELECT phase, generation FROM rag.runs WHERE run_id = $old"),
		'Completed|5', 'the run with the outdated definition completes');
	sql(q{SELECT rag_resume('docs')});
	await_row('docs', $status, 'Completed|6|6|', 'the new definition is run afterwards');
	is( sql(    q{SELECT count(*), count(*) FILTER (WHERE uri LIKE 'file://}
			  . $second
			  . q{/%') FROM rag.documents WHERE source = 'docs'}),
		'2|2',
		'the documents of the new definition are stored');

	forget_collection($node);
	freeze($embed);
	sql(qq{SELECT rag_alter_source('docs', spec => '{"path": "$first"}')});
	await_row('docs', 'phase', 'Running', 'a second run is in progress');
	sql(qq{SELECT rag_alter_source('docs', spec => '{"path": "$second"}')});
	thaw($embed);
	await_row('docs', $status, 'Completed|8|8|',
		'a source that is altered during its run is synced again');
};

subtest 'a source is dropped with its documents in all collections' => sub {
	sql(q{SELECT rag_create_collection('other')});
	sql(q{SELECT rag_suspend('docs'), rag_alter_source('docs', collection => 'other')});
	cmp_ok(
		sql(q{SELECT count(*) FROM rag.documents WHERE source = 'docs' AND collection = 'default'}),
		'>', 0, 'the documents are still in the previous collection');
	sql(q{SELECT rag_drop_source('docs', keep_documents => false)});
	is(sql(q{SELECT count(*) FROM rag.documents WHERE source = 'docs'}),
		'0', 'no document of the dropped source remains');
};

subtest 'a source with a schedule is synced when it is created' => sub {
	my $create = sub {
		my ($name, $more) = @_;
		run_sql($node,
			qq{SELECT rag_create_source('$name', 'folder', '{"path": "$first"}', $more)});
		return sql(qq{SELECT coalesce(string_agg(trigger, ' '), 'none') FROM rag.runs
			WHERE source = '$name'});
	};
	is($create->('yearly', q{schedule => '@yearly'}), 'create', 'a run is queued at once');
	is(sql(q{SELECT next_scheduled_run > now() + interval '1 hour' OR extract(year FROM now()) <
		extract(year FROM next_scheduled_run) FROM rag.sources WHERE name = 'yearly'}),
		't', '... and the next one at the time of the schedule');
	is($create->('at-start', q{schedule => '@reboot'}), 'create',
		'... also by a schedule of starts of the server');
	is($create->('suspended', q{schedule => '@yearly', suspend => true}), 'none',
		'a suspended source is not synced');
	await('the runs have ended', sub { sql(q{SELECT count(*) FROM rag.runs
		WHERE source IN ('yearly', 'at-start') AND phase = 'Completed'}) eq '2' });
	sql("SELECT rag_drop_source('$_')") for qw(yearly at-start suspended);
};

subtest 'a source that was created while the scheduler was off' => sub {
	configure($node, 'rag.scheduler', 'off');
	sql(qq{SELECT rag_create_source('yearly', 'folder', '{"path": "$first"}',
		schedule => '\@yearly')}
	);
	await_row('yearly', 'scheduled', 'f', 'a source is not scheduled while the scheduler is off');
	configure($node, 'rag.scheduler', 'on');
	await_row('yearly', 'scheduled', 't', 'the source is synced when the scheduler is on');
};

same_cluster($witness, 'all tests of definitions');
$node->stop;
done_testing();
