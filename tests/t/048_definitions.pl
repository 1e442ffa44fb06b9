# Sources that are altered, suspended and resumed while a scheduler looks after them, and while they
# are being synced.
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
	my $came = RagTest::wait_until(sub { ($seen = sql("SELECT $columns FROM rag.sources WHERE name = '$source'")) eq $expected });
	return ok($came, $name) || diag("$seen\n" . sql('SELECT * FROM rag.sources; SELECT * FROM rag.runs'));
}

sub runs { return sql("SELECT string_agg(trigger || ' ' || generation || ' ' || phase, ', ' ORDER BY run_id) FROM rag.runs WHERE source = '$_[0]'") }

my $first = write_documents(temp_folder(), 3, 1, 'first');
my $second = write_documents(temp_folder(), 2, 1, 'second');
my $status = 'phase, observed_generation, generation, next_scheduled_run';

subtest 'a source without a schedule' => sub {
	sql(qq{SELECT rag_create_source('docs', 'folder', '{"path": "$first"}')});
	await_row('docs', $status, 'Completed|1|1|', 'is synced when it is made');
	sql(qq{SELECT rag_alter_source('docs', spec => '{"path": "$second"}')});
	await_row('docs', $status, 'Completed|2|2|', 'and when it is altered');
	is(sql(q{SELECT count(*), count(*) FILTER (WHERE uri LIKE 'file://} . $second . q{/%') FROM rag.documents}), '2|2', 'what it does not read any more is gone');
	sql(q{SELECT rag_alter_source('docs', max_retries => 0, schedule => '@yearly')});
	sql(q{SELECT rag_alter_source('docs', schedule => '')});
	is(runs('docs'), 'create 1 Completed, create 2 Completed', 'but not where it reads the same');
	is(sql("SELECT $status FROM rag.sources"), 'Completed|2|4|', 'and is of a later generation than its status');
};

subtest 'a source that is suspended' => sub {
	sql(qq{SELECT rag_create_source('later', 'folder', '{"path": "$first"}', suspend => true)});
	sql(qq{SELECT rag_create_source('now', 'folder', '{"path": "$first"}')});
	await_row('now', 'phase', 'Completed', 'another one is synced');
	is(sql(q{SELECT phase, last_run_id FROM rag.sources WHERE name = 'later'}), 'Suspended|', 'it is not');
	sql(q{SELECT rag_resume('later')});
	await_row('later', $status, 'Completed|1|1|', 'until it is resumed');
	sql(q{SELECT rag_suspend('later')});
	sql(qq{SELECT rag_alter_source('later', spec => '{"path": "$second"}')});
	sql(q{SELECT rag_resume('later')});
	await_row('later', $status, 'Completed|2|2|', 'or altered and resumed');
	sql(q{SELECT rag_suspend('later')});
	sql(q{SELECT rag_resume('later')});
	sql(qq{SELECT rag_alter_source('now', spec => '{"path": "$second"}')});
	await_row('now', $status, 'Completed|2|2|', 'the other is synced once more');
	is(runs('later'), 'create 1 Completed, create 2 Completed', 'one that was only suspended and resumed is not');
};

subtest 'a run that outlives its definition' => sub {
	forget_collection($node);
	my $embed = engine_pid($node, 'embed');
	# the run waits for its embeddings
	freeze($embed);
	sql(qq{SELECT rag_alter_source('docs', spec => '{"path": "$first"}')});
	await_row('docs', 'phase', 'Running', 'a run is under way');
	my $old = sql(q{SELECT current_run_id FROM rag.sources WHERE name = 'docs'});
	sql(qq{SELECT rag_alter_source('docs', spec => '{"path": "$second"}')});
	sql(q{SELECT rag_suspend('docs')});
	is(sql(q{SELECT phase, suspend, observed_generation, generation FROM rag.sources WHERE name = 'docs'}), 'Running|t|2|6', 'nor altering it nor suspending it ends the run');
	thaw($embed);
	await_row('docs', 'phase, observed_generation, generation', 'Suspended|2|6', 'its end is not the status of the new definition');
	is(sql("SELECT phase, generation FROM rag.runs WHERE run_id = $old"), 'Completed|5', 'though it completed');
	sql(q{SELECT rag_resume('docs')});
	await_row('docs', $status, 'Completed|6|6|', 'which is carried out in its turn');
	is(sql(q{SELECT count(*), count(*) FILTER (WHERE uri LIKE 'file://} . $second . q{/%') FROM rag.documents WHERE source = 'docs'}), '2|2', 'and what it reads is stored');

	forget_collection($node);
	freeze($embed);
	sql(qq{SELECT rag_alter_source('docs', spec => '{"path": "$first"}')});
	await_row('docs', 'phase', 'Running', 'a run is under way');
	sql(qq{SELECT rag_alter_source('docs', spec => '{"path": "$second"}')});
	thaw($embed);
	await_row('docs', $status, 'Completed|8|8|', 'a source that is altered during its run is synced again after it');
};

subtest 'a source that is dropped with its documents, wherever they are' => sub {
	sql(q{SELECT rag_create_collection('other')});
	sql(q{SELECT rag_suspend('docs'), rag_alter_source('docs', collection => 'other')});
	cmp_ok(sql(q{SELECT count(*) FROM rag.documents WHERE source = 'docs' AND collection = 'default'}), '>', 0, 'they are in the collection before');
	sql(q{SELECT rag_drop_source('docs', keep_documents => false)});
	is(sql(q{SELECT count(*) FROM rag.documents WHERE source = 'docs'}), '0', 'none is left');
};

subtest 'a source that was made while the scheduler was off' => sub {
	configure($node, 'rag.scheduler', 'off');
	sql(qq{SELECT rag_create_source('yearly', 'folder', '{"path": "$first"}', schedule => '\@yearly')});
	await_row('yearly', 'scheduled', 'f', 'is not scheduled');
	configure($node, 'rag.scheduler', 'on');
	await_row('yearly', 'scheduled', 't', 'until it is on again');
};

same_cluster($witness, 'all of it');
$node->stop;
done_testing();
