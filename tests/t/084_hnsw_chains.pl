# Rows of equal vectors are stored in chains. Vacuum removes chains when their rows are deleted, so
# that updates leave an index like a new one. A vacuum that is cancelled or crashes loses no space.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagHnsw;

my $node = hnsw_node('chains');
$node->safe_psql('postgres', <<'SQL');
-- Pages that a statement touches.
CREATE FUNCTION pages_of(statement text) RETURNS bigint LANGUAGE plpgsql SET enable_seqscan = off
SET enable_sort = off AS $$
DECLARE
    plan json;
BEGIN
    EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT json) ' || statement INTO plan;
    RETURN (plan->0->'Plan'->>'Shared Hit Blocks')::bigint
		+ (plan->0->'Plan'->>'Shared Read Blocks')::bigint;
END $$;

CREATE FUNCTION pages_of_queries(relation regclass) RETURNS bigint LANGUAGE sql AS $$
    SELECT sum(pages_of(format('SELECT id FROM %s ORDER BY v <-> %L LIMIT 10', relation,
    v)))::bigint FROM query WHERE dimensions = 64
$$;
SQL

sub info
{
	my ($table, $what) = @_;
	return $node->safe_psql('postgres',
		"SELECT $what FROM rag_hnsw_info((SELECT index FROM hnsw_index('$table')))");
}

# -- rows that are inserted and deleted beside a permanent one
# ----------------------------------------

$node->safe_psql(
	'postgres', "CREATE TABLE same (id int PRIMARY KEY, v rag_types.vector); SELECT setseed(0.1);
	INSERT INTO same SELECT i, point(64) FROM generate_series(1, 500) i;
	CREATE INDEX ON same USING rag_hnsw (v vector_l2_ops); VACUUM same"
);
my $nearest =
  "SELECT pages_of(format('SELECT id FROM same ORDER BY v <-> %L LIMIT 1', (SELECT v FROM same
  WHERE id = 7)))";
my $before = $node->safe_psql('postgres', $nearest);
my @sizes;
for (1 .. 8)
{
	$node->safe_psql(
		'postgres',
		'INSERT INTO same SELECT 1000 + i, (SELECT v FROM same WHERE id = 7)
		FROM generate_series(1, 2000) i;
		DELETE FROM same WHERE id > 500');
	$node->safe_psql('postgres', 'VACUUM same');
	push @sizes, info('same', 'pages');
}
is($sizes[7], $sizes[1], "rounds of equal rows leave no more pages than the second round (@sizes)");
cmp_ok(
	$node->safe_psql('postgres', $nearest),
	'<=',
	1.2 * $before,
	'a query reads no more pages after many rounds');
is(info('same', 'vectors, nodes, tombstones'),
	'500|500|0', 'the index contains exactly the remaining rows');
index_is_correct($node, 'same', 'equal rows inserted and deleted in rounds');

# -- updates that are not HOT
# ----------------------------------------

$node->safe_psql(
	'postgres',
	"CREATE TABLE updated (id int PRIMARY KEY, n int, v rag_types.vector);
	CREATE INDEX ON updated (n); SELECT setseed(0.2);
	INSERT INTO updated SELECT i, 0, point(64) FROM generate_series(1, 6000) i;
	CREATE INDEX ON updated USING rag_hnsw (v vector_l2_ops)"
);
my ($pages, $visits) =
  (info('updated', 'pages'), $node->safe_psql('postgres', "SELECT pages_of_queries('updated')"));
$node->safe_psql('postgres', 'UPDATE updated SET n = n + 1');
$node->safe_psql('postgres', 'VACUUM updated');
cmp_ok(
	info('updated', 'pages'),
	'<=',
	1.2 * $pages,
	'updates of all rows and vacuum keep the size of the index');
cmp_ok(
	$node->safe_psql('postgres', "SELECT pages_of_queries('updated')"),
	'<=',
	1.2 * $visits,
	'queries read no more pages after updates of all rows');
$node->safe_psql('postgres', 'UPDATE updated SET n = n + 1; UPDATE updated SET n = n + 1');
$node->safe_psql('postgres', 'VACUUM updated');
cmp_ok(
	info('updated', 'pages'),
	'<=',
	1.2 * $pages,
	'two updates between vacuums keep the size of the index');
is(info('updated', 'vectors, nodes, tombstones'), '6000|6000|0', 'every row is in the index once');
index_is_correct($node, 'updated', 'updates of all rows');

# -- a vacuum that is stopped
# ----------------------------------------

$node->safe_psql('postgres', 'UPDATE updated SET n = n + 1');
my $full = info('updated', 'pages');
my $slow = "SET vacuum_cost_delay = '2ms'; SET vacuum_cost_limit = 200; VACUUM updated";
for my $end (qw(cancel cancel crash))
{
	$node->safe_psql('postgres', 'DELETE FROM updated WHERE id % 100 > 0');
	my $vacuum = start_sql($node, $slow);
	my $pid =
	  await_phase($vacuum, 'vacuum', $end eq 'crash' ? 'vacuuming indexes' : 'cleaning up indexes');
	thaw($pid);
	if ($end eq 'crash')
	{
		crash($node);
		$vacuum->finish;
	}
	else
	{
		ask($node, "SELECT pg_cancel_backend($pid)");
		error_like($vacuum->finish, '57014', 'user request', undef,
			'a vacuum of chains can be cancelled');
	}
	$node->safe_psql('postgres', 'VACUUM updated');
	is(info('updated', 'vectors, nodes, tombstones'),
		'60|60|0', "the next vacuum succeeds after $end");
	index_is_correct($node, 'updated', "the index is correct after $end");
	$node->safe_psql(
		'postgres',
		"SELECT setseed(0.2); INSERT INTO updated SELECT i, 0, point(64)
		FROM generate_series(1, 6000) i ON CONFLICT DO NOTHING;
		UPDATE updated SET n = n + 1");
	cmp_ok(info('updated', 'pages'), '<=', 1.1 * $full, "space freed after $end is used again");
}

$node->stop;
done_testing();
