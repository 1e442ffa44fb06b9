# The planner chooses the faster plan if vectors are stored in the TOAST table. A sequential scan
# has to fetch each of them, which its cost does not contain. Comments have measured times, in
# memory: milliseconds with the index and with a sort.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagHnsw;

my $node = hnsw_node('costs', conf => "maintenance_work_mem = '256MB'\n");

# Sums of a few random vectors, because that many random numbers would take long.
sub create
{
	my ($rows, $dimensions) = @_;
	$node->safe_psql(
		'postgres', "DROP TABLE IF EXISTS c, part; SELECT setseed(0.4);
		CREATE TABLE part AS SELECT i, noise($dimensions, 1) AS v FROM generate_series(0, 199) i;
		CREATE TABLE c (id int, bucket int, v rag_types.vector($dimensions));
		INSERT INTO c SELECT g, g % 1000, a.v + b.v FROM generate_series(1, $rows) g
			JOIN part a ON a.i = g % 100 JOIN part b ON b.i = 100 + g / 100 % 100;
		CREATE INDEX c_v ON c USING rag_hnsw (v vector_cosine_ops) WITH (ef_construction = 32);
		CREATE INDEX c_bucket ON c (bucket);
		VACUUM ANALYZE c");
	return;
}

# The index that a query uses: c_v, c_bucket, or none.
sub chosen
{
	my ($query, $setting) = @_;
	my $plan = $node->safe_psql('postgres', ($setting // '') . "EXPLAIN (COSTS off) $query");
	return $plan =~ /Index Scan (?:using|on) (\w+)/ ? $1 : 'none';
}

sub nearest_of
{
	my ($limit, $where) = @_;
	return
		'SELECT id FROM c '
	  . ($where // '')
	  . " ORDER BY v <=> (SELECT v FROM part LIMIT 1) LIMIT $limit";
}

for my $case (
	[ 500, 1536, 'c_v', undef ],     # 0.8 and 4.6
	[ 2000, 768, 'c_v', 'c_v' ],     # 1.1 and 14; 2.6 and 15
	[ 2000, 1536, 'c_v', 'c_v' ],    # 1.9 and 18; 5.9 and 20
	[ 2000, 3072, 'c_v', 'c_v' ],    # 2.2 and 21; 6.6 and 22
	[ 4000, 1536, 'c_v', 'c_v' ],    # 1.9 and 27; 4.8 and 28
	[ 20000, 1536, 'c_v', 'c_v' ])    # 6.1 and 189; 15 and 142
{
	my ($rows, $dimensions, @expected) = @$case;
	create($rows, $dimensions);
	for my $limit (10, 100)
	{
		my $expected = shift @expected or next;
		is(chosen(nearest_of($limit)),
			$expected,
			"$rows rows of $dimensions dimensions, LIMIT $limit: the faster plan is chosen");
	}
	is( $node->safe_psql(
			'postgres',
			'SELECT pg_relation_size(reltoastrelid) > 2 * pg_relation_size(oid) FROM pg_class
				WHERE relname = \'c\''
		),
		't',
		'the vectors are stored in the TOAST table');
}

# 20,000 rows of 1,536 dimensions
is(chosen(nearest_of(10, 'WHERE bucket = 7')),
	'c_bucket', '20 matching rows are sorted without the index');
is(chosen(nearest_of(10, 'WHERE bucket < 500')),
	'c_v', 'the nearest of half of the rows come from the index');
is(chosen("SELECT id FROM c ORDER BY v <=> (SELECT v FROM part LIMIT 1)"),
	'none', 'all rows are sorted without LIMIT');
is( chosen(
		"SELECT p.i, n.id FROM part p, LATERAL (SELECT id FROM c ORDER BY c.v <=> p.v LIMIT 5) n",
		'SET enable_material = off; '),
	'c_v',
	'a nested loop scans the index for each row');
$node->safe_psql('postgres',
		'PREPARE p AS '
	  . nearest_of('$1') =~ s/LIMIT \$1/LIMIT \$1::int/r
	  . '; SET plan_cache_mode = force_generic_plan; EXPLAIN EXECUTE p(10)');

# vectors stored in the row
create(1000, 64);
is(chosen(nearest_of(500)), 'none', '500 of 1,000 short vectors are sorted without the index');

$node->stop;
done_testing();
