# rag_index_all_knowledge lets a worker index all knowledge items, with one process and a
# transaction for each item. Other sessions see its progress. What is done stays, whatever ends the
# worker.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagHold ();

my $node = rag_node('index_all', conf => "rag.allowed_private_hosts = '127.0.0.1'");
my $folder = write_documents(temp_folder(), 3, 1);
my @files = sort glob "$folder/*";
my $slow = RagHold::page('slow');
$node->safe_psql(
	'postgres', "SELECT rag_create_knowledge(1, NULL, '$files[0]');
	SELECT rag_create_knowledge(2, NULL, '$slow', 'website');
	SELECT rag_create_knowledge(3, NULL, '$files[1]')");
my $statuses =
  "SELECT string_agg(knowledge_id || ' ' || status, ', ' ORDER BY knowledge_id) FROM rag.knowledge";
my $counts = q{s ->> 'successful', s ->> 'failed'};
my $index = "SELECT $counts FROM rag_index_all_knowledge() s";

# Calls rag_index_all_knowledge, and waits until the item of the slow server is fetched.
sub start_and_hold
{
	RagHold::hold('slow');
	my $call = start_sql($node, $_[0] // $index);
	RagHold::await_request('slow');
	await('the item before is stored',
		sub { ask($node, 'SELECT documents_done FROM rag.progress') eq '1' });
	return $call;
}

sub await_end
{
	my $workers = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'rag indexer'";
	return await('the worker has ended', sub { ask($node, $workers) eq '0' });
}

subtest 'progress, and a cancel' => sub {
	my $call = start_and_hold();
	is(ask($node, $statuses), '1 active, 2 pending, 3 pending',
		'an item is committed before the next item is fetched');
	is( ask($node, 'SELECT collection, stage, documents_done, documents_total, run_id > 0
			FROM rag.progress'),
		'default|knowledge|1|3|t', 'another session sees the progress');
	is(scalar(() = engines($node, 'ingest')), 1, 'one process reads the items');
	error_like(run_sql($node, 'SELECT rag_index_all_knowledge()'),
		'55006', 'are being indexed by another session', 'rag.progress',
		'a second call of rag_index_all_knowledge is rejected');
	ask($node, 'SELECT pg_cancel_backend(' . $call->backend . ')');
	error_like($call->finish, '57014', 'canceling statement due to user request',
		undef, 'rag_index_all_knowledge can be cancelled');
	await_end();
	is(ask($node, $statuses), '1 active, 2 pending, 3 pending', 'what is done stays');
	is(ask($node, 'SELECT count(*) FROM rag.progress'), '0', 'nothing is in progress');
	is(scalar(() = engines($node, 'ingest')), 0, 'no process is left');
};

subtest 'a worker that is cancelled' => sub {
	my $call = start_and_hold();
	ask($node, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity
		WHERE backend_type = 'rag indexer'");
	error_like($call->finish, '57014', 'canceling statement', undef, 'its session is told');
};

subtest 'an engine that is killed' => sub {
	my $call = start_and_hold();
	kill 'KILL', engine_pid($node, 'ingest');
	RagHold::release('slow');
	my $result = $call->finish;
	is($result->{out}, '2|1', 'takes one item with it') or diag($result->{err});
	like(ask($node, 'SELECT error FROM rag.knowledge WHERE knowledge_id = 2'),
		qr/^rag-engine was killed/, 'the item has the reason');
	is(ask($node, $statuses), '1 active, 2 error, 3 active', 'the others are indexed');
};

subtest 'inside a transaction' => sub {
	my $result = run_sql($node,
		"BEGIN; SELECT rag_create_knowledge(4, NULL, '$files[2]') IS NULL;
		SELECT s ->> 'total_items' FROM rag_index_all_knowledge('error') s;
		SELECT s ->> 'total_items' FROM rag_index_all_knowledge('active') s; ROLLBACK");
	is($result->{rc}, 0, 'rag_index_all_knowledge works inside of a transaction')
	  or diag($result->{err});
	is($result->{out}, "f\n1\n3", 'it indexes what is committed');
	like($result->{err}, qr/NOTICE:.*are not committed: 1/, 'and tells the rest');
	is(ask($node, $statuses), '1 active, 2 active, 3 active', 'a rollback does not undo it');
};

subtest 'items that change meanwhile' => sub {
	my $call = start_and_hold();
	$node->safe_psql('postgres', "SELECT rag_alter_knowledge(3, uri => '$files[2]');
		SELECT rag_alter_knowledge(2, title => 'Slow')");
	RagHold::release('slow');
	is($call->finish->{out}, '1|2', 'they are not stored');
	is(ask($node, 'SELECT count(*) FROM rag.knowledge WHERE error LIKE $$%changed meanwhile$$'),
		'2', 'items that have changed meanwhile say why they are not stored');
	is($node->safe_psql('postgres', $index), '3|0', 'another call indexes them');
	is( ask($node, 'SELECT uri FROM rag.documents WHERE knowledge_id = 3'),
		"file://$files[2]", 'with what they are now');

	$call = start_and_hold();
	$node->safe_psql('postgres', 'SELECT rag_drop_knowledge(3)');
	RagHold::release('slow');
	is($call->finish->{out}, '2|1', 'an item that is removed fails');
	is(ask($node, 'SELECT count(*) FROM rag.documents WHERE knowledge_id = 3'), '0',
		'it does not come back');
};

subtest 'servers that limit the rate of requests' => sub {
	$node->safe_psql('postgres', "SELECT rag_create_collection('limited');
		SELECT rag_create_knowledge(1, NULL, '@{[RagHold::page('limited')]}',
			collection => 'limited');
		SELECT rag_create_knowledge(2, NULL, '$files[0]', collection => 'limited')");
	RagHold::answer('limited', '429 Too Many Requests', 'Retry-After: 2');
	my $call = start_sql($node, "SELECT $counts FROM rag_index_all_knowledge(NULL, 'limited') s");
	my $done = "SELECT documents_done FROM rag.progress WHERE collection = 'limited'";
	await('the other item is stored', sub { ask($node, $done) eq '2' });
	error_like(run_sql($node, "SELECT rag_rename_collection('limited', 'other')"),
		'55006', 'are being indexed', undef, 'a collection that is being indexed is not renamed');
	RagHold::answer('limited');
	my $result = $call->finish;
	is($result->{out}, '2|0', 'their items are tried again') or diag($result->{err});
};

$node->stop;
done_testing();
