# rag_enqueue_document returns at once, and a background worker indexes the document: with the
# rights of the role that queued it, with retries, and only once.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;
use RagLlm;

my $node = rag_node('document_queue', scheduler => 1,
	conf => "rag.allowed_private_hosts = '127.0.0.1'\nrag.retry_delay = '200ms'");
RagLlm::origin('open');

# Runs statements in a session of their own, whose role ends with it.
sub once { my $result = run_sql($node, @_); return $result->{out} }

sub state_of { return ask($node, "SELECT status FROM rag.queued_documents WHERE uri = '$_[0]'") }

sub await_end
{
	my ($uri) = @_;
	await("$uri has ended",
		sub { ask($node, "SELECT count(*) FROM rag.queued_documents
			WHERE uri = '$uri' AND ended_at IS NULL") eq '0' });
	return state_of($uri);
}

sub create_remote
{
	my ($name, $fields) = @_;
	my $origin = RagLlm::origin($name);
	$node->safe_psql('postgres',
		"SELECT rag_create_model('$name', 'embedding', 'openai',
			'{\"base_url\": \"$origin\", \"model\": \"tiny\"$fields}');
		 SELECT rag_create_collection('$name', model => '$name')");
	return;
}

# -- a writer of one collection queues texts and files
$node->safe_psql('postgres', "CREATE ROLE app IN ROLE rag_reader;
	CREATE ROLE other IN ROLE rag_reader;
	SELECT rag_create_collection('notes');
	SELECT rag_grant_collection('notes', 'app', 'write');
	SELECT rag_grant_collection('notes', 'other', 'read')");
my $id = once("SET ROLE app;
	SELECT rag_enqueue_document('# Lift' || repeat(E'\\n\\nIt is out of order.', 40), 'note:lift',
		tags => '{house}', metadata => '{\"floor\": 2}', collection => 'notes')");
like($id, qr/^\d+$/, 'rag_enqueue_document returns an id');
is(await_end('note:lift'), 'indexed', 'a worker indexes the document');
is( ask($node, "SELECT status, action, attempts, error IS NULL, chunks_indexed > 0, owner,
		retry_at IS NULL, ended_at >= queued_at FROM rag.queued_documents WHERE id = $id"),
	'indexed|added|1|t|t|app|t|t', 'the view says what became of it');
is( ask($node, "SELECT d.title, d.tags, d.metadata ->> 'floor', d.status,
		d.chunk_count = q.chunks_indexed
		FROM rag.documents d JOIN rag.queued_documents q USING (document_id)"),
	'Lift|{house}|2|active|t', 'the document is as if it had been added');
is(ask($node, 'SELECT count(content) FROM rag_internal.queued_document'), '0',
	'the content is not kept twice');
once("SET ROLE app; SELECT rag_enqueue_document(convert_to('a,b' || E'\\n' || 'x,y', 'UTF8'),
	'table.csv', collection => 'notes')");
await_end('table.csv');
is(ask($node, "SELECT document_type FROM rag.documents WHERE uri = 'table.csv'"),
	'csv', 'a file has the type of its name');
is(once("SET ROLE app; SELECT rag_update_document(document_id, title => 'The lift')
	FROM rag.documents WHERE uri = 'note:lift'"), 't', 'the document belongs to no source');

# -- what is wrong
for my $case (
	[ q{rag_enqueue_document('x', ' ')}, '22023', qr/uri must not be empty/ ],
	[ q{rag_enqueue_document(NULL::text, 'x')}, '22004', qr/content must not be NULL/ ],
	[
		q{rag_enqueue_document('x', 'x', document_type => 'nothing')},
		'22023', qr/unknown document_type/
	],
	[ q{rag_enqueue_document('x', 'x', metadata => '[]')}, '22023', qr/must be a JSON object/ ],
	[ q{rag_enqueue_document('x', 'x', collection => 'none')}, '42704', qr/"none" does not exist/ ])
{
	my ($call, $sqlstate, $message) = @$case;
	error_like(run_sql($node, "SELECT $call"),
		$sqlstate, $message, undef, "$call is refused at once");
}
error_like(
	run_sql($node,
		"SET ROLE other; SELECT rag_enqueue_document('x', 'x', collection => 'notes')"),
	'42501', qr/permission denied to write to collection "notes"/, undef, 'a reader may not queue');
is(once('SET ROLE other; SELECT count(*) FROM rag.queued_documents'), '0',
	'and does not see what others have queued');
ask($node, "SELECT rag_enqueue_document('  ', 'empty', collection => 'notes')");
is(await_end('empty'), 'failed', 'a document without content fails');
is(ask($node, "SELECT error, attempts FROM rag.queued_documents WHERE uri = 'empty'"),
	'no content to index|1', 'with the reason, and without another attempt');
run_sql($node, "BEGIN; SELECT rag_enqueue_document('x', 'rolled back'); ROLLBACK");
is(state_of('rolled back'), '', 'a rollback takes the document back');

# -- while nothing is indexed
configure($node, 'rag.scheduler', 'off');
ask($node, "SELECT rag_enqueue_document('The old text.', 'twice', collection => 'notes');
	SELECT rag_enqueue_document('The new text.', 'twice', collection => 'notes')");
my $mine = once("SET ROLE app; SELECT rag_enqueue_document('x', 'mine', collection => 'notes')");
once("CREATE ROLE gone IN ROLE rag_reader; SELECT rag_grant_collection('notes', 'gone', 'write');
	SET ROLE gone; SELECT rag_enqueue_document('x', 'of gone', collection => 'notes');
	SELECT rag_enqueue_document('x', 'of gone 2', collection => 'notes')");
is(once("SET ROLE other; SELECT rag_dequeue_document(0)"), 'f', 'an unknown id is told');
error_like(run_sql($node, "SET ROLE other; SELECT rag_dequeue_document($mine)"), '42501',
	qr/permission denied to write/, undef, 'a reader may not take a document out of the queue');
is(ask($node, "SELECT rag_dequeue_document($mine)"), 't', 'a writer may');
is(state_of('mine'), '', 'then it is not there');
once("SET ROLE app; SELECT rag_enqueue_document('x', 'revoked', collection => 'notes')");
ask($node, "SELECT rag_revoke_collection('notes', 'app', 'write');
	SELECT rag_revoke_collection('notes', 'gone'); DROP ROLE gone;
	SELECT rag_rename_collection('notes', 'papers')");
configure($node, 'rag.scheduler', 'on');
await_end($_) for 'twice', 'revoked', 'of gone', 'of gone 2';
is( ask($node, "SELECT string_agg(status, ', ' ORDER BY id) FROM rag.queued_documents
		WHERE uri = 'twice'"),
	'superseded, indexed', 'of two with the same uri the last is indexed');
is(ask($node, "SELECT content FROM rag.documents WHERE uri = 'twice'"), 'The new text.',
	'in the renamed collection');
my $error_of = "SELECT status || ': ' || error FROM rag.queued_documents WHERE uri =";
like(ask($node, "$error_of 'revoked'"),
	qr/^failed: permission denied to write to collection "papers"/,
	'the right to write is checked when the document is indexed');
like(ask($node, "$error_of 'of gone'"),
	qr/^failed: role "gone", which queued the document, does not exist/,
	'a dropped role indexes nothing');

# -- a model's server that fails for a while
create_remote('mortal', ', "batch": 8, "concurrency": 1');
ask($node, "SELECT count(rag_enqueue_document('Text number ' || n, 'remote:' || n,
	collection => 'mortal')) FROM generate_series(1, 33) n");
await('a failure is recorded',
	sub { ask($node, "SELECT count(*) FROM rag.queued_documents
		WHERE uri LIKE 'remote:%' AND error IS NOT NULL") > 0 });
like(ask($node, "SELECT max(error || ': ' || error_detail) FROM rag.queued_documents
	WHERE uri LIKE 'remote:%'"),
	qr/^the server of model "mortal" has failed: .*out of GPUs/, 'with what the server says');
RagLlm::heal('mortal');
await('all are indexed',
	sub { ask($node, "SELECT count(*) FROM rag.queued_documents
		WHERE uri LIKE 'remote:%' AND status = 'indexed'") == 33 });
is( ask($node, "SELECT count(*), count(DISTINCT uri) FROM rag.documents
		WHERE collection = 'mortal'"),
	'33|33', 'each document once');
cmp_ok(ask($node, "SELECT max(attempts) FROM rag.queued_documents WHERE uri LIKE 'remote:%'"),
	'>', 1, 'after another attempt');

# -- a worker that is ended, and one that was lost
my $workers = "FROM pg_stat_activity WHERE backend_type = 'rag document queue'";
create_remote('held-embed', '');
my $held =
  ask($node, "SELECT rag_enqueue_document('Text.', 'held', collection => 'held-embed')");
await('the worker waits for the server', sub { RagLlm::seen('held-embed') > 0 });
is(ask($node, "SELECT rag_dequeue_document($held)"),
	'f', 'a document in progress stays in the queue');
ask($node, "SELECT pg_terminate_backend(pid) $workers");
await('the worker has ended', sub { ask($node, "SELECT count(*) $workers") eq '0' });
is( ask($node, "SELECT status, attempts, retry_at > now() FROM rag.queued_documents
		WHERE id = $held"),
	'queued|1|t', 'its document waits for another attempt');
RagLlm::heal('held');
ask($node, "UPDATE rag_internal.queued_document SET next_attempt_at = now() WHERE id = $held;
	SELECT rag_enqueue_document('Text.', 'wakes the scheduler', collection => 'papers')");
is(await_end('held'), 'indexed', 'which indexes it');
$node->safe_psql('postgres', 'CHECKPOINT');    # or the crash loses that it was indexed
$node->stop('immediate');
$node->start;
ask($node, "UPDATE rag_internal.queued_document SET status = 'queued', content = 'x',
		ended_at = NULL, next_attempt_at = now(), attempts = 4 WHERE id = $held;
	SELECT rag_enqueue_document('Text.', 'wakes it again', collection => 'papers')");
is(await_end('held'), 'failed', 'a document with which the process was lost four times fails');

# -- many at once, from several sessions
my @sessions = map {
	start_sql($node, "SELECT rag_enqueue_document('Text ' || n || ' of session $_', '$_/' || n,
		collection => 'papers') FROM generate_series(1, 100) n")
} 1 .. 4;
is($_->finish->{rc}, 0, 'a session queues 100 documents') for @sessions;
await('all of them are indexed',
	sub { ask($node, "SELECT count(*) FROM rag.documents WHERE uri ~ '^[1-4]/'") == 400 });
await('the worker has left', sub { ask($node, "SELECT count(*) $workers") eq '0' });
is(ask($node, "SELECT max(attempts), count(*) FROM rag.queued_documents WHERE uri ~ '^[1-4]/'"),
	'1|400', 'each by one attempt');

# -- a dump has what is queued
configure($node, 'rag.scheduler', 'off');
ask($node, "SELECT rag_enqueue_document('Dumped text.', 'dumped', collection => 'papers')");
my $dump = temp_folder() . '/dump';
command_ok([ 'pg_dump', '-Fc', '-f', $dump, '-d', $node->connstr('postgres') ], 'pg_dump');
$node->safe_psql('postgres', 'CREATE DATABASE copy');
configure($node, 'rag.scheduler', 'on');
command_ok([ 'pg_restore', '-d', $node->connstr('copy'), $dump ], 'pg_restore');
await('the restored document is indexed',
	sub { $node->safe_psql('copy', "SELECT status FROM rag.queued_documents WHERE uri = 'dumped'")
		eq 'indexed' });
is( $node->safe_psql('copy', "SELECT id > 400 FROM rag_enqueue_document('x', 'later',
		collection => 'papers') AS id"), 't', 'ids go on where they were');

# -- a dropped collection takes its queue along
ask($node, "SELECT rag_drop_collection('papers')");
is(ask($node, "SELECT count(*) FROM rag.queued_documents WHERE collection = 'papers'"), '0',
	'a dropped collection has no queue');

done_testing();
