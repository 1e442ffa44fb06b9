# A session without enough memory fails with an error, in a build, a scan, a vacuum and other
# operations on a large index or text. If the error cannot be handled, only that session ends. The
# server and other sessions are undisturbed.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagHnsw;
use RagMemory;

my $node = hnsw_node('memory');
my $rows = 250_000;
$node->safe_psql(
	'postgres', "CREATE TABLE t (id int, v rag_types.vector); SELECT setseed(0.3);
	INSERT INTO t SELECT i, format('[%s,%s,%s]', random(), random(), random())::rag_types.vector
	FROM generate_series(1, $rows) i"
);
my $witness = witness($node);

# -- builds
# ----------------------------------------

# with the server's worker threads, and with one thread only
for my $threads (1, 0)
{
	my $failed = with_more_and_more(
		$node,
		"SET max_parallel_maintenance_workers = $threads; SET maintenance_work_mem = '4GB';
		CREATE INDEX t_v ON t USING rag_hnsw (v vector_l2_ops) WITH (m = 4, ef_construction = 10)",
		8_000_000, "a build with $threads parallel workers");
	cmp_ok($failed, '>', 1, "$failed builds failed for lack of memory");
	same_cluster($witness, 'builds without enough memory');
	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_class WHERE relname = 't_v'"),
		'1', 'the last build succeeded');
	$node->safe_psql('postgres', 'DROP INDEX t_v') if $threads;
}
is($node->safe_psql('postgres', "SELECT nodes > 0.9 * $rows FROM rag_hnsw_info('t_v')"),
	't', 'the index has the expected number of nodes');

# -- the server as a whole, as under ulimit -v
# ----------------------------------------

my $result = run_sql($node,
	limited(40_000_000)
	  . "SET maintenance_work_mem = '4GB'; CREATE INDEX t_w ON t USING rag_hnsw (v vector_l2_ops)");
error_like($result, '53200', 'out of memory',
	undef, 'a build with the default options needs more memory');
like($result->{err}, qr/HINT:  Lower maintenance_work_mem/, 'the hint names the required memory');
$result = run_sql(
	$node,
	limited(40_000_000)
	  . "SET client_min_messages = error; SET maintenance_work_mem = '10MB';
	CREATE INDEX t_w ON t USING rag_hnsw (v vector_l2_ops) WITH (m = 4, ef_construction = 10)
	WHERE id <= 40000; SELECT 'built'"
);
is($result->{rc}, 0, 'a build with the suggested memory succeeds') or diag($result->{err});
same_cluster($witness, 'builds with a memory limit');

# -- scans, vacuum, functions
# ----------------------------------------

my $scan = "SET work_mem = '1GB'; SET enable_seqscan = off; SET enable_sort = off;
	SELECT count(*) FROM (SELECT id FROM t ORDER BY v <-> '[0.5,0.5,0.5]' OFFSET 0) s";
cmp_ok(with_more_and_more($node, $scan, 1_000_000, 'a scan of everything'),
	'>', 0, 'a scan without enough memory');
cmp_ok(with_more_and_more($node, "SELECT * FROM rag_check_index('t_v')", 50_000, 'a check'),
	'>=', 0, 'rag_check_index without enough memory');
$node->safe_psql('postgres',
	"UPDATE t SET v = '[0.1,0.2,0.3]' WHERE id % 3 = 0; DELETE FROM t WHERE id % 4 = 0");
# What a vacuum that fails leaves is freed by the next one, so the last one must not fail. It needs
# 8 to 10 MB.
cmp_ok(
	with_more_and_more($node, 'VACUUM (PARALLEL 0) t', 200_000, 'a vacuum', tries => 100),
	'<', 100, 'vacuum without enough memory');
same_cluster($witness, 'scans and vacuums without enough memory');
is($node->safe_psql('postgres', "SELECT * FROM rag_check_index('t_v')"),
	'', 'the index is correct after scans and vacuums without enough memory');

# -- texts
# ----------------------------------------

# memory that Rust allocates itself and that is not requested as above: the session may end, but no
# other
my ($refused, $ended, $wrong) = (0, 0, '');
for my $call (
	q{rag_apply_manifest(E'kind: AutoIndexer\\nmetadata:\\n  name: ' || repeat('x', 20000000))},
	q{rag_create_source('s', 'folder', jsonb_build_object('path', repeat('x', 20000000)))},
	q{rag_add_document(repeat('x ', 10000000), 'note:1')})
{
	for my $try (0 .. 10)
	{
		my $result = run_sql($node, limited(25_000_000 + $try * 10_000_000) . "SELECT $call");
		$wrong .= $result->{err} if $result->{err} !~ /(ERROR|FATAL):  /;
		$refused++ if $result->{err} =~ /53200/;
		$ended++ if $result->{err} =~ /FATAL:  53200: out of memory/;
	}
}
is($wrong, '', 'a large text without enough memory does not crash the server');
cmp_ok($refused, '>', 5, "memory was insufficient $refused times, $ended sessions have ended");
same_cluster($witness, 'a large text without enough memory');

# a session that goes on without memory: a statement that cannot keep a reserve for its errors is
# refused, as each function that catches one would fail again
$wrong = '';
my $many = q{SELECT count(*) FROM rag_add_documents((SELECT jsonb_agg(jsonb_build_object(
	'uri', 'many:' || i, 'content', repeat('A sentence of ' || i || '. ', 200)))
	FROM generate_series(1, 5) i))};
for my $bytes (0, 50_000, 500_000, 1_500_000, 3_000_000)
{
	my $result = run_sql($node,
		limited($bytes) . '\set ON_ERROR_STOP 0' . "\n" . join '', map { "$many;\n" } 1 .. 8);
	my @states = $result->{err} =~ /(?:ERROR|FATAL):  (\w+):/g;
	$wrong .= $result->{err} if grep { $_ ne '53200' } @states or $result->{err} =~ /PANIC/;
}
is($wrong, '', 'a session without memory fails again and again, each time for lack of memory');
same_cluster($witness, 'a session that goes on without memory');

# -- many chunks
# ----------------------------------------

$node->safe_psql(
	'postgres', q{
	SELECT rag_create_collection('split', dimensions => 2);
	SELECT rag_upsert_chunks(jsonb_agg(jsonb_build_object('chunk_id', 'c' || i,
		'document_id', 'd' || i / 50, 'text', repeat('words of a text ', 70) || i,
		'chunk_index', i, 'embedding', ARRAY[1, i])), 'split')
	FROM generate_series(1, 40000) i GROUP BY i / 1000});
$result = run_sql($node,
	limited(25_000_000) . "SELECT count(*), sum(length(content)) FROM rag_get_chunks('split')");
is($result->{out}, '40000|44988894', 'chunks are read with less memory than they take')
  or diag($result->{err});

$node->stop;
done_testing();
