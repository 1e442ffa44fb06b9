# A restart after an orderly or immediate shutdown keeps all data and ends the engine.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use RagTest;

my $node = new_node('restart');
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION rag');
create_handbook($node);

is( $node->safe_psql(
		'postgres',
		q{SELECT success FROM rag_add_document('Bread is baked in the morning.', 'bread', 'Bread')}
	),
	't',
	'a document is added');
$node->safe_psql('postgres', q{SELECT rag_sync('handbook')});

my $all = q{
    SELECT d.document_id, d.source, d.title, d.status, d.content_hash, c.chunk_id, c.start_index,
        md5(c.content), md5(c.embedding::text)
    FROM rag.documents d JOIN rag.chunks c USING (document_id) ORDER BY c.chunk_id};
my $search = q{SELECT rank, title, round(score::numeric, 3)
		FROM rag_search('how do I rotate the signing keys?', top_k => 3)};
my $runs = q{SELECT run_id, source, phase, documents_added, chunks_written, finished_at
		FROM rag.runs ORDER BY run_id};
my %before = map { $_ => $node->safe_psql('postgres', $_) } ($all, $search, $runs);
like($before{$search}, qr/^1\|Rotating the signing keys\|/, 'a search finds the indexed document');
is(scalar(engine_pids($node, 'embed')), 1, 'one engine serves the cluster');

for my $mode ('fast', 'immediate')
{
	$node->stop($mode);
	ok(wait_until(sub { !engine_pids($node) }), "no engine is running after a shutdown: $mode");
	$node->start;
	is($node->safe_psql('postgres', $_),
		$before{$_}, "contents are the same after a shutdown: $mode")
	  for ($all, $runs, $search);
}

is($node->safe_psql('postgres', q{SELECT rag_sync('handbook') IS NOT NULL}),
	't', 'rag_sync works after restarts');
is( $node->safe_psql(
		'postgres',
		q{SELECT documents_unchanged > 0, chunks_embedded FROM rag.runs ORDER BY run_id DESC
			LIMIT 1}
	),
	't|0',
	'a sync after restarts embeds nothing');
is($node->safe_psql('postgres', q{SELECT count(*), count(DISTINCT run_id) FROM rag.runs}),
	'2|2', 'each run has its own id');

$node->stop;
done_testing();
