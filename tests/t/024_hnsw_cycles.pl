# Recall stays the same through inserts, deletes, vacuums and updates, for several numbers of
# dimensions and all metrics.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagHnsw;

my $node = hnsw_node('cycles');
my %operator = (l2 => '<->', ip => '<#>', cosine => '<=>');
my %size = (3 => 2000, 64 => 2000, 384 => 1000, 1000 => 400);

# The recall of a search with few candidates shows the quality of the graph.
sub narrow_recall
{
	my ($table, $metric) = @_;
	return $node->safe_psql(
		'postgres',
		"ALTER FUNCTION nearest SET rag.ef_search = 20;
			SELECT recall('$table', '$operator{$metric}', 10);
		ALTER FUNCTION nearest SET rag.ef_search = 200");
}

for my $dimensions (sort { $a <=> $b } keys %size)
{
	for my $metric (sort keys %operator)
	{
		my $name = "$dimensions dimensions, $metric";
		my ($table, $n) = ("t_${dimensions}_$metric", $size{$dimensions});
		# half of the rows are built, half are inserted
		$node->safe_psql(
			'postgres',
			"CREATE TABLE $table (id int PRIMARY KEY, v rag_types.vector); CREATE SEQUENCE s_$table;
				SELECT setseed(0.2);
			INSERT INTO $table SELECT nextval('s_$table'), point($dimensions)
			FROM generate_series(1, $n / 2);
			CREATE INDEX ON $table USING rag_hnsw (v vector_${metric}_ops);
			INSERT INTO $table SELECT nextval('s_$table'), point($dimensions)
			FROM generate_series(1, $n / 2)"
		);
		index_is_correct($node, $table, "$name: correct after a build and inserts");

		for my $cycle (1 .. 2)
		{
			$node->safe_psql('postgres',
				"SELECT setseed(0.$cycle); DELETE FROM $table WHERE random() < 0.4");
			index_is_correct($node, $table, "$name: correct after deletes without vacuum")
			  if $cycle == 1;
			$node->safe_psql('postgres', "VACUUM $table");
			index_is_correct($node, $table, "$name: correct after deletes and vacuum")
			  if $cycle == 1;
			$node->safe_psql(
				'postgres',
				"SELECT setseed(0.$cycle); UPDATE $table SET v = point($dimensions)
					WHERE random() < 0.3;
				INSERT INTO $table SELECT nextval('s_$table'), point($dimensions)
				FROM generate_series(1, (SELECT $n - count(*) FROM $table))"
			);
			$node->safe_psql('postgres', "VACUUM $table");
			index_is_correct($node, $table, "$name: correct after cycle $cycle");
		}
		my $worn = narrow_recall($table, $metric);
		my $pages = $node->safe_psql('postgres',
			"SELECT pages FROM rag_index_info((SELECT index FROM hnsw_index('$table')))");
		$node->safe_psql('postgres', "REINDEX TABLE $table");
		index_is_correct($node, $table, "$name: correct after REINDEX");
		cmp_ok(
			$worn, '>=',
			narrow_recall($table, $metric) - 0.06,
			"$name: recall after cycles is close to that of a new index");
		cmp_ok(
			$pages, '<',
			2 * $node->safe_psql(
				'postgres',
				"SELECT pages FROM rag_index_info((SELECT index FROM hnsw_index('$table')))"),
			"$name: the index has less than twice the size of a new one");
	}
}

$node->stop;
done_testing();
