# Calls of models on other servers: rag_test_model against servers that answer, fail, and do
# neither; keys, limits, counts, rights, and what remains after a restart and a dump.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;
use RagLlm;

my $node = rag_node('models', conf => "rag.allowed_private_hosts = '127.0.0.1'");
my $key = 'sk-a-key-that-nobody-sees-4711';
$node->safe_psql('postgres', "SELECT rag_create_secret('llm', '$key')");

sub create_model
{
	my ($name, $kind, $provider, $spec, $path) = @_;
	my $origin = RagLlm::origin($name) . ($path // '');
	$node->safe_psql('postgres',
		qq{SELECT rag_create_model('$name', '$kind', '$provider',
			'{"base_url": "$origin", $spec}')});
	return;
}

# The SQLSTATE of the error of statements.
sub sqlstate { my ($result) = @_; return $result->{err} =~ /(?:ERROR|FATAL):  (\w{5}):/ ? $1 : '' }

my $spec = '"model": "tiny", "api_key": {"secretRef": {"name": "llm"}}';
sub test_model
{
	my ($name) = @_;
	return ask($node, "SELECT success, message FROM rag_test_model('$name')");
}

# -- models that answer
create_model('open', 'chat', 'openai', "$spec, \"max_tokens\": 5, \"temperature\": 0", '/v1/');
my $answered = 't|the model answered, with 5 tokens sent and 5 received';
is(test_model('open'), $answered, 'a chat model of provider openai answers');
my ($request) = RagLlm::requests('open');
is_deeply(
	$request,
	{
		path => '/v1/chat/completions',
		authorization => "Bearer $key",
		type => 'application/json',
		body => {
			model => 'tiny',
			messages => [ { role => 'user', content => 'Answer with the word OK.' } ],
			temperature => 0,
			max_tokens => 5,
			stream => JSON::PP::true,
			stream_options => { include_usage => JSON::PP::true }
		}
	},
	'openai: the request has path, key and settings');

create_model('whole', 'chat', 'openai',
	'"model": "tiny", "stream": false,
	 "parameters": {"max_tokens": null, "max_completion_tokens": 9, "top_p": 0.5}');
like(test_model('whole'), qr/^t\|/, 'openai without a stream');
($request) = RagLlm::requests('whole');
is_deeply([ sort keys %{ $request->{body} } ],
	[qw(max_completion_tokens messages model temperature top_p)],
	'parameters add and remove keys');
is($request->{authorization}, undef, 'no key, no header');

create_model('ollama', 'chat', 'ollama', '"model": "tiny"');
is(test_model('ollama'), $answered, 'a chat model of provider ollama answers');
($request) = RagLlm::requests('ollama');
is($request->{path}, '/api/chat', 'ollama: the path is that of chats');
is_deeply($request->{body}{options}, { temperature => 0.7, num_predict => 16 },
	'ollama: the options have temperature and length');

create_model('cohere', 'rerank', 'cohere', $spec, '/v2');
is(test_model('cohere'), 't|the model scored 2 documents', 'a reranker of provider cohere scores');
($request) = RagLlm::requests('cohere');
is($request->{path}, '/v2/rerank', 'cohere: the path is that of rerankers');
is($request->{body}{top_n}, 2, 'cohere: all documents are scored');
create_model('tei', 'rerank', 'tei', '"timeout": 10');
is(test_model('tei'), 't|the model scored 2 documents', 'a reranker of provider tei scores');

# -- models that fail
my $invalid = qr/sent an invalid answer/;
my $html = qr/$invalid: It is not a JSON object; its type is text\/html/;
my @failures = (
	[ 'unauthorized', 'openai', qr/refuses the key: The server answered 401 Unauthorized/, 1 ],
	[ 'failing', 'openai', qr/has failed: The server answered 500 .*: out of GPUs$/, 4 ],
	[ 'busy', 'openai', qr/limits the rate .* and asks to wait 3600 s: .*: slow down$/, 1 ],
	[ 'unknown', 'ollama', qr/does not know the model or the address: .*model 'x' not found/, 1 ],
	[ 'picky', 'openai', qr/refuses the request: .*maximum context length/, 1 ],
	[ 'html', 'openai', $html, 1 ],
	[ 'html-o', 'ollama', $html, 1 ],
	[ 'json', 'openai', qr/sent an invalid answer: It has no choices/, 1 ],
	[ 'empty', 'openai', qr/sent an invalid answer/, 1 ],
	[ 'empty-o', 'ollama', qr/broke off/, 1 ],
	[ 'broken', 'openai', qr/broke off/, 1 ],
	[ 'cut', 'openai', qr/broke off/, 1 ],
	[ 'reporting', 'openai', qr/has failed: the GPU is on fire/, 1 ],
	[ 'elsewhere', 'openai', qr/redirects to another host/, 1 ],
	[ 'endless', 'openai', qr/is too long: Its text exceeds the limit of 1048576 bytes/, 1 ],
	[ 'line', 'openai', qr/is too long: A line exceeds the limit/, 1 ]);
for my $failure (@failures)
{
	my ($name, $provider, $message, $requests) = @$failure;
	create_model($name, 'chat', $provider, $spec);
	my $result = test_model($name);
	like($result, qr/^f\|.*$message/, "$name: the error tells what is wrong");
	unlike($result, qr/sees-4711|sk-own-4711/, "$name: the error does not contain the key");
	is(RagLlm::count($name), $requests, "$name: the number of requests");
}
for my $name (qw(throttled flaky))
{
	create_model($name, 'chat', 'openai', $spec);
	like(test_model($name), qr/^t\|/, "$name: the request is sent again");
}
create_model('silent', 'chat', 'openai', "$spec, \"timeout\": 1.5");
my $began = time;
is( test_model('silent'),
	'f|model "silent" did not answer within 1.5 s',
	'silent: the time is limited');
cmp_ok(time - $began, '<', 10, 'silent: the error comes in time');
create_model('slow', 'chat', 'openai', "$spec, \"timeout\": 1");
is(test_model('slow'), 'f|model "slow" did not answer within 1 s', 'slow: all time is limited');
create_model('few', 'rerank', 'tei', '"timeout": 10');
is( test_model('few'),
	'f|the server of model "few" sent an invalid answer: It has 1 scores for 2 documents.',
	'few: each document needs a score');

# -- hosts that are not allowed
for my $host ('10.0.0.1', '169.254.169.254', '[::1]')
{
	$node->safe_psql('postgres',
		qq{SELECT rag_drop_model('inside', true);
		   SELECT rag_create_model('inside', 'chat', 'openai',
			'{"base_url": "http://$host:9/v1", "model": "m"}')});
	like(
		test_model('inside'),
		qr/^f\|could not call model "inside": connections to .* are not allowed/,
		"a model at $host is refused");
}
$node->safe_psql('postgres',
	q{SELECT rag_alter_model('inside', '{"base_url": "http://example.org/v1", "model": "m",
		"api_key": {"secretRef": {"name": "llm"}}}')});
like(test_model('inside'), qr/^f\|credentials cannot be sent over http/,
	'keys are not sent over http to other hosts');

# -- a session can be ended while it waits
create_model('silent-long', 'chat', 'openai', '"model": "m", "timeout": 100');
my $statement = "SELECT * FROM rag_test_model('silent-long')";
my $session = start_sql($node, $statement);
$session->await_waiting;
is(scalar(my @calls = engines($node, 'call')), 1, 'one process calls the model');
ask($node, 'SELECT pg_cancel_backend(' . $session->backend . ')');
is(sqlstate($session->finish), '57014', 'a call can be cancelled');
await('the process has ended', sub { !engines($node, 'call') });
is(sqlstate(run_sql($node, "SET statement_timeout = '1s'; $statement")),
	'57014', 'statement_timeout ends a call');
$session = start_sql($node, $statement);
$session->await_waiting;
ask($node, 'SELECT pg_terminate_backend(' . $session->backend . ')');
$session->finish;
await('the process has ended with the session', sub { !engines($node, 'call') });
$session = start_sql($node, $statement);
$session->await_waiting;
my ($process) = engines($node, 'call');
kill 'KILL', $process;
like($session->finish->{out}, qr/rag-engine was killed by signal 9 while it called the model/,
	'a killed process is an error of the call');

# -- counts
is( ask($node, "SELECT calls, errors, input_tokens, output_tokens, tokens, estimated
		FROM rag.model_usage WHERE model = 'open'"),
	'1|0|5|5|10|0', 'tokens of a call are counted');
is( ask($node, "SELECT calls, errors, tokens, estimated
		FROM rag.model_usage WHERE model = 'failing'"),
	'1|1|0|0', 'a refused request has no tokens');
like( ask($node, "SELECT calls, errors, estimated, output_tokens
		FROM rag.model_usage WHERE model = 'broken'"),
	qr/^1\|1\|1\|[1-9]/, 'tokens of a broken answer are estimated');
create_model('absurd', 'chat', 'openai', '"model": "m", "stream": false');
like(test_model('absurd'), qr/^t\|/, 'absurd: the model answers');
test_model('absurd');
is( ask($node, "SELECT calls, estimated, tokens BETWEEN 1 AND 1000 FROM rag.model_usage
		WHERE model = 'absurd'"),
	'2|2|t', 'absurd numbers of tokens are not believed, but estimated');
is(ask($node, "SELECT count(*) > 0 FROM rag.models WHERE tokens >= 0"),
	't', 'the view of models works');
is(ask($node, "SELECT calls, errors FROM rag.models WHERE name = 'silent-long'"),
	'4|3', 'cancelled calls are counted; an ended session cannot count its error');
is(run_sql($node, "BEGIN; SELECT success FROM rag_test_model('open'); ROLLBACK")->{rc},
	0, 'a call in a transaction that is rolled back');
is(ask($node, "SELECT calls FROM rag.models WHERE name = 'open'"), '2',
	'a call that is rolled back is counted');
like(run_sql($node, "BEGIN READ ONLY; SELECT success FROM rag_test_model('open'); COMMIT")->{out},
	qr/^t$/m, 'a read-only transaction can call');

# -- limits
create_model('little', 'chat', 'openai', '"model": "m", "tokensPerDay": 12');
like(test_model('little'), qr/^t/, 'a call within the limit succeeds');
like(test_model('little'), qr/^t/, 'a call may exceed the limit');
like(
	test_model('little'),
	qr/^f\|tokensPerDay of model "little" is used up: The limit is 12\. Calls/,
	'the limit is used up');
is(RagLlm::count('little'), 2, 'no request is sent beyond the limit');
create_model('rare', 'chat', 'openai', '"model": "m", "requestsPerMinute": 1');
# the minute may end in between
like(join(' ', map { test_model('rare') } 1 .. 3), qr/requestsPerMinute of model "rare" is used up/,
	'requestsPerMinute limits the calls');
$node->safe_psql('postgres',
	"SELECT rag_alter_model('little', jsonb_set(spec, '{tokensPerDay}', '1000'))
	 FROM rag.models WHERE name = 'little'");
like(test_model('little'), qr/^t/, 'a raised limit allows calls again');

# -- the key is resolved with the rights of the owner, and only then
$node->safe_psql(
	'postgres', q{
	CREATE ROLE owner IN ROLE rag_admin LOGIN;
	CREATE ROLE reader IN ROLE rag_reader LOGIN;
	SET ROLE owner;
	SELECT rag_create_secret('own', 'sk-own-4711')});
my $origin = RagLlm::origin('granted');
$node->safe_psql('postgres',
	qq{SET ROLE owner; SELECT rag_create_model('granted', 'chat', 'openai',
		'{"base_url": "$origin", "model": "m", "api_key": {"secretRef": {"name": "own"}}}')});
is(sqlstate(run_sql($node, "SET ROLE reader; SELECT rag_test_model('granted')")),
	'42501', 'no right without a grant');
$node->safe_psql('postgres', "SET ROLE owner; SELECT rag_grant_model('granted', 'reader')");
like(run_sql($node, "SET ROLE reader; SELECT success FROM rag_test_model('granted')")->{out},
	qr/^t$/m, 'a grantee calls with the key of the owner');
($request) = RagLlm::requests('granted');
is($request->{authorization}, 'Bearer sk-own-4711', 'the key was sent');
is(sqlstate(run_sql($node, "SET ROLE reader; SELECT * FROM rag.secrets")),
	'42501', 'the grantee sees no secret');
like(run_sql($node, "SET ROLE reader; SELECT model, calls FROM rag.model_usage")->{out},
	qr/^granted\|1$/m, 'the grantee sees the counts of this model only');
$node->safe_psql('postgres',
	'REASSIGN OWNED BY owner TO postgres; DROP OWNED BY owner; DROP ROLE owner');
my $gone = run_sql($node,
	"SET ROLE reader; SELECT success, message FROM rag_test_model('granted')");
like($gone->{out}, qr/^f\|role "owner", which owns the model, does not exist/m,
	'a model of a dropped role has no key');

# -- restart and dump
$node->restart;
is(ask($node, "SELECT calls FROM rag.models WHERE name = 'open'"), '3', 'counts survive a restart');
my $dump = temp_folder() . '/dump';
$node->command_ok([ 'pg_dump', '--no-sync', '-f', $dump, '-d', $node->connstr('postgres') ],
	'pg_dump');
unlike(slurp_file($dump), qr/sees-4711|sk-own-4711/, 'the dump has no key');
$node->safe_psql('postgres', 'CREATE DATABASE copy');
my $copy = $node->connstr('copy');
$node->command_ok([ 'psql', '-X', '-v', 'ON_ERROR_STOP=1', '-d', $copy, '-f', $dump ],
	'restore');
is( run_sql($node, "SELECT rag_test_model('open')", database => 'copy')->{out} =~
	  s/,[\d.]+,\)$/)/r,
	'(t,"the model answered, with 5 tokens sent and 5 received")',
	'a restored model has its key');
is( run_sql($node, "SELECT granted_to, owner IS NULL FROM rag.models WHERE name = 'granted'",
		database => 'copy')->{out},
	'{reader}|t', 'a restored database has the grants of models');
$node->safe_psql('postgres', "SELECT rag_drop_model('open')");
is(ask($node, "SELECT count(*) FROM rag.model_usage WHERE model = 'open'"),
	'0', 'a dropped model has no counts');

my $log = slurp_file($node->logfile);
unlike($log, qr/sees-4711|sk-own-4711/, 'no key is in the log');
is(scalar(@calls = engines($node, 'call')), 0, 'no process is left');
$node->stop;
done_testing;
