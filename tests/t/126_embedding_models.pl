# Embedding models on other servers: syncs and searches with them, beside collections of a local
# model; servers that answer with something else; budgets; and what a failure costs.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;
use RagLlm;

my $node = rag_node('embedding_models',
	conf => "rag.allowed_private_hosts = '127.0.0.1'\nrag.scheduler = off");
my $key = 'sk-a-key-that-nobody-sees-4711';
$node->safe_psql('postgres', "SELECT rag_create_secret('llm', '$key')");
my $with_key = '"model": "tiny", "api_key": {"secretRef": {"name": "llm"}}';

sub create_model
{
	my ($name, $provider, $spec, $path) = @_;
	my $origin = RagLlm::origin($name) . ($path // '');
	my $fields = join ', ', qq{"base_url": "$origin"}, $spec || ();
	$node->safe_psql('postgres',
		"SELECT rag_create_model('$name', 'embedding', '$provider', '{$fields}')");
	return;
}

sub test_model
{
	my ($name) = @_;
	return ask($node, "SELECT success, message, dimensions FROM rag_test_model('$name')");
}

# A collection with a source of short documents.
sub create_collection
{
	my ($name, $model, @texts) = @_;
	my $folder = RagCluster::temp_folder();
	RagCluster::write_file("$folder/$_.txt", $texts[$_]) for 0 .. $#texts;
	$node->safe_psql('postgres',
		"SELECT rag_create_collection('$name', model => '$model');
		 SELECT rag_create_source('$name', 'folder', '{\"path\": \"$folder\"}',
			collection => '$name')");
	return $folder;
}

# Syncs a source. Returns phase, number of embedded chunks, and error of the run.
sub sync
{
	my ($name) = @_;
	run_sql($node, "SELECT rag_sync('$name')");
	return ask($node, "SELECT phase, chunks_embedded, errors FROM rag.runs
		WHERE source = '$name' ORDER BY run_id DESC LIMIT 1");
}

# -- four interfaces
my $tested = 't|the model embeds texts, with 16 dimensions|16';
my $prices = '"prices": {"inputTokens": 0.02, "requests": 1}';
create_model('open', 'openai', "$with_key, \"queryPrefix\": \"query: \", $prices", '/v1/');
is(test_model('open'), $tested, 'an embedding model of provider openai embeds');
my ($request) = RagLlm::requests('open');
is($request->{path}, '/v1/embeddings', 'openai: the path is that of embeddings');
is($request->{authorization}, "Bearer $key", 'openai: the key is sent');
is_deeply([ sort keys %{ $request->{body} } ],
	[qw(encoding_format input model)], 'openai: the request has input, model and format');
like($request->{body}{input}[0], qr/^query: /, 'openai: the prefix of queries is sent');
create_model('ollama', 'ollama', '"model": "tiny"');
is(test_model('ollama'), $tested, 'an embedding model of provider ollama embeds');
create_model('cohere', 'cohere', "$with_key, \"dimensions\": 8", '/v2');
is(test_model('cohere'), 't|the model embeds texts, with 8 dimensions|8',
	'an embedding model of provider cohere embeds');
my @requests = RagLlm::requests('cohere');
is_deeply([ map { $_->{body}{input_type} } @requests ],
	[qw(search_query search_document)], 'cohere: the type of input');
is($requests[0]{body}{output_dimension}, 8, 'cohere: the dimensions are requested');
create_model('tei', 'tei', '"batch": 4, "concurrency": 3');
is(test_model('tei'), $tested, 'an embedding model of provider tei embeds');
is(RagLlm::count('tei'), 4, 'texts are sent in batches');
is(ask($node, "SELECT calls, estimated > 0 FROM rag.model_usage WHERE model = 'tei'"),
	'4|t', 'each request is counted, and tokens are estimated where the server does not count');

# -- the state of an index names the interface of its model
$node->safe_psql('postgres', "SELECT rag_create_collection('of-$_', model => '$_');
	SELECT rag_add_document('Keys are rotated each month.', 'keys', collection => 'of-$_')")
  for qw(cohere tei);
is(ask($node, "SELECT rag_chunk_state('of-cohere') -> 'embed'"),
	'{"dim": 8, "model": "cohere", "provider": "cohere"}',
	'rag_chunk_state names the provider cohere');
is(ask($node, "SELECT rag_chunk_state('of-tei') -> 'embed'"),
	'{"dim": 16, "model": "tei", "provider": "tei"}', 'rag_chunk_state names the provider tei');

# -- two models side by side
create_collection('near', 'all-MiniLM-L6-v2', 'Keys are rotated each month.', 'Bread is baked.');
my $folder = create_collection('far', 'open', 'Keys are rotated each month.', 'Bread is baked.',
	'Lunch is at noon.');
like(sync('near'), qr/Completed\|2/, 'a sync with the local model');
like(sync('far'), qr/Completed\|3/, 'a sync with a model on another server');
is( ask($node, "SELECT name, model, embedding_dimension FROM rag.collections
		WHERE name IN ('near', 'far') ORDER BY name"),
	"far|open|16\nnear|all-MiniLM-L6-v2|384",
	'each collection has its model');
for my $collection (qw(near far))
{
	is( ask($node, "SELECT content FROM rag_search('when are keys rotated?', '$collection',
			mode => 'vector', top_k => 1)"),
		'Keys are rotated each month.',
		"$collection: a search embeds the query with its model");
}
RagLlm::requests('open');
like(sync('far'), qr/Completed\|0/, 'a sync of an unchanged folder completes');
is(RagLlm::count('open'), 0, 'so nothing is sent');
RagCluster::write_file("$folder/1.txt", 'Bread is sliced.');
like(sync('far'), qr/Completed\|1/, 'one document has changed');
my @sent = map { @{ $_->{body}{input} } } RagLlm::requests('open');
is_deeply(\@sent, ['Bread is sliced.'], 'so one text is sent');
is( ask($node, "SELECT name, used_by, dimensions FROM rag.models WHERE name = 'open'"),
	'open|{far}|16',
	'the view shows who uses a model');
is( run_sql($node, "SELECT rag_drop_model('open')")->{err} =~ /ERROR:  (\w+)/ && $1,
	'2BP01', 'a model that is used is not dropped');

# -- what it costs: 20 billionths for a token and a thousandth for a request
is( ask($node, "SELECT string_agg(model_tokens || ' ' || coalesce(model_cost::text, '-'), ', '
			ORDER BY run_id) FROM rag.runs WHERE source = 'far'"),
	'190 0.0030038, 0 -, 3 0.00100006',
	'runs have the tokens and the cost of their calls; the first asks for the dimensions, too');
is( ask($node, "SELECT model_tokens, model_cost FROM rag.runs WHERE source = 'near'"),
	'0|', 'a model on this server costs nothing');
is( ask($node, "SELECT cost = calls * 0.001 + tokens * 0.00000002 FROM rag.model_usage
		WHERE model = 'open'"),
	't', 'the model has the cost of all calls');
is( ask($node, "SELECT m.cost = u.cost FROM rag.models m JOIN rag.model_usage u ON u.model = m.name
		WHERE m.name = 'open'"),
	't', 'rag.models shows it');
is(ask($node, "SELECT calls > 0, cost FROM rag.models WHERE name = 'tei'"),
	't|', 'without prices there is no cost');
is( ask($node, "SELECT string_agg(value::text, ' ' ORDER BY name) FROM rag.metrics
		WHERE name LIKE 'rag\\_run\\_model\\_%' AND labels ->> 'source' = 'far'"),
	'0.00400386 193', 'metrics add them up');
$node->safe_psql('postgres', "SELECT rag_alter_model('open', spec - 'prices')
	FROM rag.models WHERE name = 'open'");
my $cost = ask($node, "SELECT cost FROM rag.models WHERE name = 'open'");
RagCluster::write_file("$folder/1.txt", 'Bread is eaten.');
like(sync('far'), qr/Completed\|1/, 'a sync without prices');
is( ask($node, "SELECT model_tokens, model_cost FROM rag.runs WHERE source = 'far'
		ORDER BY run_id DESC LIMIT 1"),
	'3|', 'a sync without prices has no cost');
is(ask($node, "SELECT cost FROM rag.models WHERE name = 'open'"), $cost, 'what was paid stays');
RagLlm::requests('open');

# -- servers that fail
my @failures = (
	[ 'unauthorized', '28000', qr/refuses the key/ ],
	[ 'failing', '08006', qr/has failed/ ],
	[ 'busy', '08004', qr/limits the rate of requests and asks to wait 3600 s/ ],
	[ 'unknown', '22023', qr/does not know the model/ ],
	[ 'picky', '22023', qr/refuses the request/ ],
	[ 'html', '08P01', qr/invalid answer.*not JSON/s ],
	[ 'json', '08P01', qr/invalid answer.*no list of vectors/s ],
	[ 'empty', '08P01', qr/invalid answer.*is empty/s ],
	[ 'broken', '08006', qr/could not call|broke off|has failed/ ],
	[ 'missing', '08P01', qr/It has 0 vectors for 1 texts/ ],
	[ 'nan', '08P01', qr/not JSON/ ],
	[ 'huge', '08P01', qr/not a finite number/ ],
	[ 'zero', '08P01', qr/All elements of a vector are 0/ ],
	[ 'silent', '08006', qr/did not answer within 1 s/ ]);
for my $failure (@failures)
{
	my ($name, $code, $message) = @$failure;
	create_model($name, 'openai', "$with_key, \"timeout\": 1");
	my $result = run_sql($node, "SELECT rag_embed('a text', '$name')");
	like($result->{err}, qr/ERROR:  $code: /, "$name: the error has the SQLSTATE");
	like($result->{err}, $message, "$name: the message tells what is wrong");
	unlike($result->{err}, qr/\Q$key\E/, "$name: the error does not contain the key");
}
create_model('growing', 'openai', '"model": "tiny"');
create_collection('growing', 'growing', 'A text.');
sync('growing');
is(ask($node, "SELECT count(*) FROM rag.chunks WHERE collection = 'growing'"),
	'0', 'nothing wrong is stored');

# -- roles without a right to use a model
$node->safe_psql('postgres', q{CREATE ROLE other LOGIN; GRANT rag_admin TO other;
	SELECT rag_create_retriever('paid', '{"embedding": {"model": "open"}}')});
RagLlm::requests('open');
for my $statement (
	q{SELECT rag_create_retriever('taken', '{"embedding": {"model": "open"}}')},
	q{SELECT rag_create_retriever('own');
		SELECT rag_create_collection('own', retriever => 'own');
		SELECT rag_alter_retriever('own', '{"embedding": {"model": "open"}}')})
{
	error_like(run_sql($node, "SET ROLE other; $statement"),
		'42501', qr/permission denied to use model "open"/,
		undef, 'a retriever names only models that the role may use');
}
my $test = q{SET ROLE other; SELECT success, message FROM rag_test_retriever('paid')};
like(run_sql($node, $test)->{out},
	qr/^f\|permission denied to use model "open"/m, 'nor does a test of a retriever call others');
is(RagLlm::count('open'), 0, 'nothing is sent');

# -- a query that cannot be embedded
$node->safe_psql('postgres', "SELECT rag_alter_model('open', spec || '{\"tokensPerDay\": 1}')
	FROM rag.models WHERE name = 'open'");
my $search = run_sql($node, "SELECT title FROM rag_search('bread', 'far', mode => 'hybrid')");
like($search->{err}, qr/NOTICE.*tokensPerDay of model "open" is used up/s,
	'a hybrid search uses keywords when the budget is used up');
like(run_sql($node, "SELECT title FROM rag_search('bread', 'far', mode => 'vector')")->{err},
	qr/ERROR:  53400: tokensPerDay/, 'a search by meaning fails');

# -- a budget ends a run
RagCluster::write_file("$folder/2.txt", 'Lunch is at one.');
RagLlm::requests('open');
like(sync('far'), qr/^Failed\|0\|.*tokensPerDay of model .* is used up/,
	'a run beyond the budget fails');
is( ask($node, q{SELECT conditions @> '[{"reason": "BudgetExhausted"}]' FROM rag.sources
		WHERE name = 'far'}),
	't', 'the reason of the condition is BudgetExhausted');
is(RagLlm::count('open'), 0, 'nothing is sent');
is(ask($node, "SELECT count(*) FROM rag.chunks WHERE collection = 'far'"),
	'3', 'the stored documents stay');

done_testing();
