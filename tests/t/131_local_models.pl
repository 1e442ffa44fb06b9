# Models on this server: rerankers by SQL, embedding models of other families, and their memory.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;

my $node     = rag_node('local_models');
# Small models with random weights: crates/model/tests/reference/make.py, converted.
my $root     = "$ENV{RAG_TEST_FILES}/models";
my $scorer   = "$root/bert-score";
my $embedder = "$root/modernbert";

sub create_reranker
{
	my ($name, $folder, $more) = @_;
	return run_sql($node,
		"SELECT rag_create_model('$name', 'rerank', 'local', '{\"path\": \"$folder\"$more}')");
}

# -- definitions
is(create_reranker('cross', $scorer, ', "precision": "fp32", "timeout": 60')->{rc},
	0, 'a reranker on this server');
error_like(create_reranker('wrong', 'folder', ', "base_url": "http://h", "precision": "int4"'),
	'22023', 'model "wrong"', undef, 'a wrong definition is rejected');
$node->safe_psql('postgres',
	'CREATE ROLE admin IN ROLE rag_admin; GRANT CREATE ON SCHEMA public TO admin');
error_like(
	run_sql($node, qq{SET ROLE admin;
		SELECT rag_create_model('theirs', 'rerank', 'local', '{"path": "$scorer"}')}),
	'42501', 'permission denied to read files of the server', 'pg_read_server_files',
	'a path of the server needs a right');
error_like(
	run_sql($node, qq{SELECT rag_create_model('talks', 'chat', 'local', '{"path": "$scorer"}')}),
	'22023', 'unknown provider "local" of kind "chat"', undef, 'no chat model on this server');
is(ask($node, q{SELECT success || ' ' || message FROM rag_test_model('cross')}),
	'true the model scored 2 documents', 'rag_test_model scores two documents');

# -- scores: those of transformers, by the logistic function
is( ask($node, q{SELECT string_agg(index || ' ' || round(ln(score / (1 - score))::numeric, 3),
		', ' ORDER BY index) FROM rag_rerank('rotate keys', ARRAY[
		'The keys of the server are rotated each year.', 'Bread is baked in an oven.'], 'cross')}),
	join(', ', map { sprintf '%d %.3f', $_ + 1, reference_scores()->[$_] } 0, 1),
	'rag_rerank returns the scores of transformers');
is(ask($node, q{SELECT count(*) FROM rag_rerank('a', array_fill('b'::text, '{300}'), 'cross')}),
	'300', 'rag_rerank scores more documents than a request has');
is(ask($node, q{SELECT count(*) FROM rag_rerank('a', '{}', 'cross')}), '0',
	'rag_rerank of no documents returns no rows');

my $usage = q{SELECT calls, errors, tokens FROM rag.model_usage WHERE model = 'cross'};
my ($calls, $errors, $tokens) = split /\|/, ask($node, $usage);
ask($node, q{SELECT score FROM rag_rerank('a', '{b, c}', 'cross')});
like(ask($node, $usage), qr/^${\($calls + 1)}\|$errors\|(?!$tokens$)\d+$/,
	'a call that succeeds is counted');

# -- a search
$node->safe_psql('postgres', "SELECT rag_add_document('Key $_ of the server.', 'key:$_',
	document_type => 'text')") for 1 .. 4;
my $search = q{(SELECT rank, score, coalesce(title || E'\n\n', '') || content AS text
	FROM rag_search('server keys', top_k => 4, rerank => 'cross')) s};
is(ask($node, "SELECT count(*) || ' ' || (array_agg(score ORDER BY rank)
		= array_agg(score ORDER BY score DESC)) FROM $search"),
	'4 true', 'rag_search sorts by the scores');
is( ask($node, "SELECT bool_and(abs(s.score - r.score) < 1e-5) FROM $search,
		rag_rerank('server keys', ARRAY[s.text], 'cross') r"),
	't', 'which are those of title and chunk');
is(create_reranker('slow', $scorer, ', "timeout": 0.1')->{rc}, 0, 'a reranker with a deadline');
my $pid = engine_pid($node, 'embed');
freeze($pid);
my $late = start_sql($node, 'SELECT score FROM rag_rerank(\'a\', \'{b}\', \'slow\')')->finish;
thaw($pid);
error_like($late, '08006', 'model "slow" did not answer within 0.1 s', undef,
	'a reranker has a deadline');

is( ask($node, q{SELECT calls, errors, tokens > 0, estimated = calls FROM rag.model_usage
		WHERE model = 'slow'}),
	'1|1|t|t', 'calls of models on this server are counted');

# -- what is no reranker
create_reranker('embeds', $embedder, ', "timeout": 60');
error_like(run_sql($node, q{SELECT rag_rerank('a', '{b}', 'embeds')}),
	'F0000', 'cannot be used to score pairs', undef, 'an embedding model does not rerank');
create_reranker('nothing', "$root/nothing", ', "timeout": 60');
error_like(run_sql($node, q{SELECT rag_rerank('a', '{b}', 'nothing')}),
	'58P01', "could not (?:read|use) \"$root/nothing", undef, 'a folder that does not exist');
my $unranked = run_sql($node, "SELECT uri FROM rag_search('key', top_k => 1, rerank => 'nothing')");
is($unranked->{rc}, 0, 'a search goes on without its reranker');
like($unranked->{err}, qr/NOTICE: .* the results are not reranked by model "nothing"/,
	'a NOTICE tells that the results are not reranked');

# -- another family as the embedding model, and the memory of all
is( ask($node, "SET rag.model_dir = '$embedder'; SELECT cardinality(rag_embed('hello')::real[])"),
	'24', 'a model of the family ModernBERT embeds');
# -- a folder needs no settings: its prompts are read before queries and passages
my $prompted = "$root/layout-e5";
for my $model ([ folder => '' ], [ given => 'query: ', 'passage: ' ], [ plain => '', '' ])
{
	my ($name, $query, $passage) = @$model;
	my $more = defined $passage
		? qq{, "queryPrefix": "$query", "passagePrefix": "$passage"} : '';
	$node->safe_psql('postgres', qq{SELECT rag_create_model('$name', 'embedding', 'local',
		'{"path": "$prompted"$more}')});
}
sub embedded
{
	my ($model, $purpose, $text) = @_;
	return qq{rag_embed('$text', '$model', purpose => '$purpose')::text};
}
for my $purpose ('query', 'passage')
{
	my $found  = embedded('folder', $purpose, 'red');
	my @others = (embedded('given', $purpose, 'red'),
		embedded('plain', $purpose, "$purpose: red"), embedded('plain', $purpose, 'red'));
	is( ask($node, 'SELECT ' . join(', ', map { "$found = $_" } @others)),
		't|t|f', "the folder says what is read before a $purpose");
}
is( ask($node, q{SELECT count(DISTINCT fingerprint) || ' ' || count(DISTINCT fingerprint)
		FILTER (WHERE name <> 'plain') FROM rag.models
		WHERE name IN ('folder', 'given', 'plain')}),
	'2 1', 'a prompt of the folder and an equal prefix have one fingerprint');
$node->safe_psql('postgres', q{SELECT rag_create_collection('prompted', model => 'folder');
	SELECT rag_add_document('The server keeps a red key.', 'red', collection => 'prompted')});
is( ask($node, q{SELECT embedding::text = rag_embed(content, 'given', purpose => 'passage')::text
		FROM rag.chunks WHERE collection = 'prompted'}),
	't', 'documents get the prompt of passages');
is(ask($node, q{SELECT abs(vector_score - (1 - (c.embedding
			<=> rag_embed('red', 'given', purpose => 'query')))) < 1e-5
		FROM rag_search('red', 'prompted', mode => 'vector') s JOIN rag.chunks c USING (chunk_id)}),
	't', 'and searches that of queries');

configure($node, 'rag.model_memory', '1MB');
error_like(await_error('54000'),
	'54000', 'does not fit into memory', 'rag.model_memory', 'a model that is too large');
configure($node, 'rag.model_memory');
await('the engine works again', sub { run_sql($node, "SELECT rag_embed('hello')")->{rc} == 0 });
configure($node, 'rag.execution_provider', 'cuda');
error_like(await_error('0A000'), '0A000', 'execution provider "cuda"', 'rag.onnxruntime_library',
	'a provider that the library does not have');

$node->stop;
done_testing;

# The engine is restarted with changed settings; requests meanwhile may fail otherwise.
sub await_error
{
	my ($sqlstate) = @_;
	return await("SQLSTATE $sqlstate", sub {
		my $result = run_sql($node, "SELECT rag_embed('hello')");
		$result->{err} =~ /ERROR:  $sqlstate/ && $result });
}

sub reference_scores
{
	my $expected = PostgreSQL::Test::Utils::slurp_file(
		"$scorer/expected.json");
	my ($scores) = $expected =~ /"scores": \[([^\]]*)\]/;
	return [ split /, /, $scores ];
}
