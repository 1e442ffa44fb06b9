# The reranker "late": scores by the tokens of the default model, without a registration.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;

my $node = rag_node('late');
my $root = "$ENV{RAG_TEST_FILES}/models";
$node->safe_psql('postgres', 'CREATE ROLE reader IN ROLE rag_reader; CREATE ROLE nobody');
my $texts = "ARRAY['Bread is baked in an oven.', 'The signing keys are replaced each quarter.']";

# -- rag_rerank
is( ask($node, "SELECT string_agg(index::text, ' ' ORDER BY score DESC) || ' '
		|| bool_and(score BETWEEN -1 AND 1)
	FROM rag_rerank('when do we rotate the keys?', $texts, 'late')"),
	'2 1 true', 'the text that answers is first');
is( ask($node, q{SELECT round(score::numeric, 4) FROM rag_rerank('a door', '{a door}', 'late')}),
	'1.0000', 'a text matches itself');
is( ask($node, "SELECT bool_and(abs(a.score - b.score) = 0)
	FROM rag_rerank('keys', $texts || array_fill('the keys of a door '::text, '{40}'), 'late') a
	JOIN unnest($texts) WITH ORDINALITY t(text, n) ON n = a.index,
		rag_rerank('keys', ARRAY[t.text], 'late') b"),
	't', 'the score of a text does not depend on the others');
is( ask($node, q{SELECT success || ' ' || message FROM rag_test_model('late')}),
	'true the model scored 2 documents', 'rag_test_model tests late');

# -- a search
$node->safe_psql('postgres', "SELECT rag_add_document(text, 'text:' || n, document_type => 'text')
	FROM unnest($texts || ARRAY['Keys of a piano are black or white.', 'A key for the cellar door.',
		'Each signing key has a number.']) WITH ORDINALITY t(text, n)");
my $found = "(SELECT rank, score, uri, coalesce(title || E'\\n\\n', '') || content AS text
	FROM rag_search('how often are signing keys replaced?', top_k => 3, rerank => 'late')) s";
is( ask($node, "SELECT count(*) || ' ' || (array_agg(score ORDER BY rank)
		= array_agg(score ORDER BY score DESC)) || ' ' || min(uri) FILTER (WHERE rank = 1)
	FROM $found"),
	'3 true text:2', 'rag_search sorts by the scores');
is( ask($node, "SELECT bool_and(abs(s.score - 0.25 * f.score - 0.75 * r.score) < 1e-12) FROM $found
		JOIN rag_search('how often are signing keys replaced?', top_k => 20) f USING (uri),
		rag_rerank('how often are signing keys replaced?', ARRAY[s.text], 'late') r"),
	't', 'a quarter of which is that of the search');

# -- bad input
is(ask($node, q{SELECT count(*) FROM rag_rerank('a', '{}', 'late')}), '0',
	'late returns no rows for no documents');
is( ask($node, q{SELECT count(*) || ' ' || bool_and(score BETWEEN -1 AND 1)
	FROM rag_rerank('', '{"", " ", a}', 'late')}),
	'3 true', 'an empty query and empty texts');
is( ask($node, q{SELECT count(DISTINCT score) FROM rag_rerank('keys of the door', ARRAY[
		repeat('the door is closed ', 500), repeat('the door is closed ', 55000)], 'late')}),
	'1', 'of a text of 1 MB the first 256 tokens count');
for my $wrong (
	[ "NULL, '{a}'",        '22004', 'query must not be NULL' ],
	[ "'a', '{a, NULL}'",   '22004', 'documents' ],
	[ "'a', array_fill('b'::text, '{10000}')", '54000', 'too many documents' ],
	[ "'a', ARRAY[repeat('b ', 3000000)]",     '54000', 'a text is too long' ])
{
	my ($arguments, $sqlstate, $message) = @$wrong;
	error_like(run_sql($node, "SELECT rag_rerank($arguments, 'late')"), $sqlstate, $message, undef,
		"$sqlstate $message");
}
error_like(run_sql($node, q{SELECT rag_create_model('late', 'rerank', 'local', '{"late": true}')}),
	'42710', 'model "late" is built in', 'Choose another name', 'the name is taken');
error_like(run_sql($node, q{SELECT rag_create_collection('c', model => 'late')}),
	'42809', 'model "late" is of kind "rerank"', undef, 'late is not an embedding model');

# -- rights
is( run_sql($node, q{SET ROLE reader; SELECT count(*) FROM rag_rerank('a', '{b}', 'late')})->{out},
	'1', 'readers use it without a grant');
error_like(run_sql($node, q{SET ROLE nobody; SELECT rag_rerank('a', '{b}', 'late')}),
	'42501', 'permission denied', undef, 'other roles do not');

# -- other folders and settings
my $create = "SELECT rag_create_model('%s', 'rerank', 'local', '{\"late\": true%s}')";
$node->safe_psql('postgres', sprintf $create, @$_)
  for [ 'modern', qq{, "path": "$root/modernbert", "timeout": 60} ],
  [ 'scores', qq{, "path": "$root/bert-score", "timeout": 60} ],
  [ 'slow', ', "timeout": 0.2' ], [ 'patient', ', "timeout": 60' ];
is( ask($node, q{SELECT round(score::numeric, 4) FROM rag_rerank('door', '{door}', 'modern')}),
	'1.0000', 'late uses a model of another folder');
error_like(run_sql($node, q{SELECT rag_rerank('a', '{b}', 'scores')}),
	'F0000', 'is not valid', undef, 'a cross-encoder has no vectors of tokens');

# -- deadline, and the engine killed while it works. Mode keyword embeds no query.
my $words = q{SELECT uri FROM rag_search('signing keys', mode => 'keyword'};
my $order = ask($node, "$words) ORDER BY rank");
my $pid = engine_pid($node, 'embed');
freeze($pid);
my $late = run_sql($node, "$words, rerank => 'slow') ORDER BY rank");
is($late->{out}, $order, 'after the deadline the order of the search stays');
like($late->{err}, qr/NOTICE: .* not reranked by model "slow": .* within 0\.2 s/, 'with a NOTICE');
# The first request of a session goes to the next engine: this session has used the one before.
thaw($pid);
my $gate = session($node);
$gate->query('BEGIN; SELECT pg_advisory_xact_lock(1)');
my $waiting = start_sql(
	$node, "DO 'BEGIN PERFORM rag_embed(''door''), pg_advisory_xact_lock(1); END';
	$words, rerank => 'patient') ORDER BY rank");
$waiting->await_locked;
freeze($pid);
$gate->query('COMMIT');
$waiting->await_waiting;
kill 'KILL', $pid;
$late = $waiting->finish;
is($late->{out}, $order, 'so it does if the engine is killed');
like($late->{err}, qr/NOTICE: .* not reranked by model "patient": .*rag-engine/,
	'with a NOTICE');
await('the engine works again', sub {
	run_sql($node, "$words, rerank => 'patient')")->{err} !~ /NOTICE/ });

$node->stop;
done_testing;
