# Rows that are deleted together, as by a source that is synced again: vacuum repairs the index
# around them, although they are few. And a repair of an index that is not cached reads its pages in
# order.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagHnsw;

my $node = hnsw_node('regions', conf => "shared_buffers = 128MB\nfsync = off\n");
$node->safe_psql('postgres', <<'SQL');
SELECT setseed(0.3);
CREATE TABLE far_centre AS SELECT c AS cluster, noise(64, 8) AS v FROM generate_series(0, 19) c;
-- 20 clusters of 400 rows, far from each other
CREATE TABLE clustered AS SELECT i AS id, i % 20 AS cluster, c.v + noise(64, 2) AS v
    FROM generate_series(1, 8000) i JOIN far_centre c ON c.cluster = i % 20;
CREATE INDEX ON clustered USING rag_hnsw (v vector_l2_ops);
CREATE TABLE near AS SELECT row_number() OVER () AS id, v + noise(64, 0.1) AS v FROM clustered
WHERE cluster < 2 AND id % 8 < 2;
-- queries where the rows are
DELETE FROM query WHERE dimensions = 64;
INSERT INTO query SELECT 64, v + noise(64, 0.5) FROM clustered WHERE id <= 20;
VACUUM ANALYZE clustered;

CREATE FUNCTION pages_of(statement text) RETURNS bigint LANGUAGE plpgsql SET enable_seqscan = off
SET enable_sort = off AS $$
DECLARE
    plan json;
BEGIN
    EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT json) ' || statement INTO plan;
    RETURN (plan->0->'Plan'->>'Shared Hit Blocks')::bigint
		+ (plan->0->'Plan'->>'Shared Read Blocks')::bigint;
END $$;

-- Pages that searches near two of the clusters touch, and inserts there.
CREATE FUNCTION pages_of_queries() RETURNS bigint LANGUAGE sql AS $$
    SELECT sum(pages_of(format('SELECT id FROM clustered ORDER BY v <-> %L LIMIT 10', v)))::bigint
    FROM near WHERE id <= 40
$$;
CREATE FUNCTION pages_of_inserts(first int) RETURNS bigint LANGUAGE sql AS $$
    SELECT sum(pages_of(format('INSERT INTO clustered VALUES (%s, 99, %L)', first + id, v)))::bigint
    FROM near WHERE id > 40 AND id <= 80
$$;
SQL

sub info
{
	my ($table, $what) = @_;
	return $node->safe_psql('postgres',
		"SELECT $what FROM rag_hnsw_info((SELECT index FROM hnsw_index('$table')))");
}

# -- a tenth of the rows, as whole clusters
# ----------------------------------------

my $queries = $node->safe_psql('postgres', 'SELECT pages_of_queries()');
my $inserts = $node->safe_psql('postgres', 'BEGIN; SELECT pages_of_inserts(100000); ROLLBACK');
$node->safe_psql('postgres', 'VACUUM clustered');
my $tombstones = info('clustered', 'tombstones');
$node->safe_psql('postgres', 'DELETE FROM clustered WHERE cluster < 2');
$node->safe_psql('postgres', 'VACUUM clustered');
cmp_ok(
	info('clustered', 'tombstones'),
	'<',
	$tombstones + 100,
	'adjacent tombstones are removed although they are only a tenth of the rows');
cmp_ok(
	$node->safe_psql('postgres', 'SELECT pages_of_queries()'),
	'<=',
	2 * $queries,
	'queries near removed rows read at most twice the pages');
cmp_ok(
	$node->safe_psql('postgres', 'SELECT pages_of_inserts(200000)'),
	'<=',
	2 * $inserts,
	'inserts near removed rows read at most twice the pages');
is( $node->safe_psql(
		'postgres',
		"SET enable_seqscan = off; SET enable_sort = off; SET rag.iterative_scan = off;
		SET rag.ef_search = 200;
	SELECT count(*) > 100 FROM (SELECT id FROM clustered ORDER BY v <-> (SELECT v FROM near
	WHERE id = 1) LIMIT 200) s"
	),
	't',
	'a search without iterative scan finds rows near removed rows');
index_is_correct($node, 'clustered', 'the index is correct after whole clusters were deleted');

# -- a tenth of the rows, anywhere
# ----------------------------------------

$node->safe_psql('postgres',
	'REINDEX TABLE clustered; DELETE FROM clustered WHERE id / 20 % 10 = 3');
$node->safe_psql('postgres', 'VACUUM clustered');
cmp_ok(info('clustered', 'tombstones'), '>', 500, 'scattered tombstones stay until there are many');
index_is_correct($node, 'clustered', 'the index is correct after scattered rows were deleted');

# -- a repair with a cold cache
# ----------------------------------------

$node->safe_psql('postgres', 'DELETE FROM clustered WHERE id / 20 % 10 > 7');
$node->restart;
my $reads = "SELECT idx_blks_read FROM pg_statio_user_indexes
  WHERE indexrelid = (SELECT index FROM hnsw_index('clustered'))";
my $before = $node->safe_psql('postgres', $reads);
$node->safe_psql('postgres', 'VACUUM clustered');
await('the reads are counted', sub { $node->safe_psql('postgres', $reads) > $before });
my $read = $node->safe_psql('postgres', $reads) - $before;
my $pages = info('clustered', 'pages');
cmp_ok(
	$read, '<',
	10 * $pages,
	"a repair with a cold cache reads each page a few times ($read reads of $pages pages)");
is(info('clustered', 'tombstones'), '0', 'a repair with a cold cache removes all tombstones');
index_is_correct($node, 'clustered', 'the index is correct after a repair with a cold cache');

# -- repeated deletion of clusters: the graph stays as good as a new one
# ----------------------------------------------------------

for my $round (1 .. 3)
{
	$node->safe_psql('postgres',
		"DELETE FROM clustered WHERE cluster IN ($round * 3, $round * 3 + 1)");
	$node->safe_psql('postgres', 'VACUUM clustered');
}
my $recall = "SELECT round(recall('clustered', '<->', 10)::numeric, 3)";
my $worn = $node->safe_psql('postgres', "ALTER FUNCTION nearest SET rag.ef_search = 40; $recall");
my $stays = info('clustered', 'tombstones');
$node->safe_psql('postgres', 'REINDEX TABLE clustered');
my $fresh = $node->safe_psql('postgres', $recall);
cmp_ok($worn, '>=', $fresh - 0.06,
	"recall is close to that after REINDEX (with $stays tombstones)");

$node->stop;
done_testing();
