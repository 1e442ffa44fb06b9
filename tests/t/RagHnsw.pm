# Functions for the cluster tests of rag_hnsw: random vectors, and checks of an index.
#
# The SQL that every node gets:
#   point(dimensions)   a random vector near one of 40 centres; setseed() makes it reproducible
#   query               a table of 20 such vectors for each number of dimensions
#   fault(table)        what is wrong with the only rag_hnsw index of a table, or ''.
#                       The table has the columns id (unique) and v.
#   nearest(table, ...) ids of the nearest rows as the index returns them; k NULL: all of them
#   exact(table, ...)   ids of the truly nearest rows
package RagHnsw;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RagCluster;
use Test::More;

our @EXPORT = qw(hnsw_node index_is_correct add_queries recall_survives_cycles);

my @dimensions = (1, 3, 64, 384, 1000);

my $tools = <<'SQL';
CREATE TABLE centre (dimensions int, id int, v rag_types.vector, PRIMARY KEY (dimensions, id));
CREATE TABLE query (dimensions int, v rag_types.vector);

CREATE FUNCTION noise(dimensions int, width float8) RETURNS rag_types.vector LANGUAGE sql
    AS 'SELECT array_agg((random() - 0.5) * width)::rag_types.vector
		FROM generate_series(1, dimensions)';
CREATE FUNCTION point(dimensions int) RETURNS rag_types.vector LANGUAGE sql
    AS 'SELECT v + noise($1, 1) FROM centre c
		WHERE c.dimensions = $1 AND c.id = (SELECT floor(random() * 40)::int)';

-- The rag_hnsw index of a table and its operator.
CREATE FUNCTION hnsw_index(relation regclass, OUT index regclass, OUT operator text) STABLE
LANGUAGE sql AS $$
    SELECT i.indexrelid, CASE o.opcname WHEN 'vector_l2_ops' THEN '<->'
    WHEN 'vector_ip_ops' THEN '<#>' ELSE '<=>' END
    FROM pg_index i JOIN pg_opclass o ON o.oid = i.indclass[0] JOIN pg_am a ON a.oid = o.opcmethod
    WHERE i.indrelid = relation AND a.amname = 'rag_hnsw' AND i.indisvalid LIMIT 1
$$;

CREATE FUNCTION nearest(relation regclass, operator text, query rag_types.vector, k bigint)
RETURNS int[] STABLE LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_sort = off SET rag.ef_search = 200
AS $$
DECLARE ids int[];
BEGIN
    EXECUTE format('SELECT array_agg(id)
        FROM (SELECT id FROM %s ORDER BY v OPERATOR(public.%s) $1 LIMIT $2) s', relation, operator)
        INTO ids USING query, k;
    RETURN coalesce(ids, '{}');
END $$;

CREATE FUNCTION exact(relation regclass, operator text, query rag_types.vector, k bigint)
RETURNS int[] STABLE LANGUAGE plpgsql
    SET enable_indexscan = off SET max_parallel_workers_per_gather = 0
AS $$
DECLARE ids int[];
BEGIN
    EXECUTE format('SELECT array_agg(id)
        FROM (SELECT id FROM %s WHERE v IS NOT NULL ORDER BY v OPERATOR(public.%s) $1 LIMIT $2) s',
        relation, operator) INTO ids USING query, k;
    RETURN coalesce(ids, '{}');
END $$;

-- The share of the k nearest rows that the index finds. Rows that are as near as the last of them
-- count, too.
CREATE FUNCTION recall(relation regclass, operator text, k int) RETURNS float8 STABLE
LANGUAGE plpgsql AS $$
DECLARE
    q rag_types.vector;
    found int[];
    best int[];
    good int;
    all_good int := 0;
    all_best int := 0;
BEGIN
    FOR q IN EXECUTE format('SELECT v FROM query WHERE dimensions =
        (SELECT rag_functions.vector_dims(v) FROM %s WHERE v IS NOT NULL LIMIT 1)', relation) LOOP
        found := nearest(relation, operator, q, k);
        best := exact(relation, operator, q, k);
        EXECUTE format('SELECT count(*) FROM %1$s
            WHERE id = ANY ($1) AND v OPERATOR(public.%2$s) $2 <=
            (SELECT max(v OPERATOR(public.%2$s) $2) FROM %1$s WHERE id = ANY ($3))',
            relation, operator)
            INTO good USING found, q, best;
        all_good := all_good + good;
        all_best := all_best + cardinality(best);
        EXECUTE format('SELECT count(*) FROM (SELECT v OPERATOR(public.%2$s) $2 AS d,
                lag(v OPERATOR(public.%2$s) $2) OVER (ORDER BY place) AS before
                FROM unnest($1) WITH ORDINALITY AS f (id, place) JOIN %1$s USING (id)) s
            WHERE d < before', relation, operator)
            INTO good USING found, q;
        IF good > 0 THEN
            RAISE 'answers are not in the order of their distance: %', found;
        END IF;
    END LOOP;
    RETURN all_good::float8 / nullif(all_best, 0);
END $$;

-- Whether the plan of a query like those of nearest() is a scan of the index: what is wrong, or ''.
CREATE FUNCTION unindexed(relation regclass) RETURNS text LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_sort = off
AS $$
DECLARE
    operator text := (SELECT operator FROM hnsw_index(relation));
    plan json;
BEGIN
    EXECUTE format('EXPLAIN (FORMAT json) SELECT id FROM %s
        ORDER BY v OPERATOR(public.%s) (SELECT v FROM %1$s LIMIT 1) LIMIT 10',
        relation, operator) INTO plan;
    RETURN CASE WHEN plan::text LIKE '%"Index Scan"%' THEN '' ELSE 'the plan is ' || plan::text END;
END $$;

-- Stable: all of it sees the table as the calling statement does, whatever others do meanwhile.
CREATE FUNCTION fault(relation regclass, with_check boolean DEFAULT true,
with_recall boolean DEFAULT true) RETURNS text
    STABLE LANGUAGE plpgsql
AS $$
DECLARE
    index regclass;
    operator text;
    problems text;
    q rag_types.vector;
    found int[];
    there int[];
    share float8;
BEGIN
    SELECT h.index, h.operator INTO STRICT index, operator FROM hnsw_index(relation) h
    WHERE h.index IS NOT NULL;
    IF with_check THEN
        SELECT string_agg(c::text, ' ') INTO problems FROM rag_check_index(index) c;
        IF problems IS NOT NULL THEN
            RETURN 'rag_check_index: ' || problems;
        END IF;
    END IF;
    EXECUTE format('SELECT v FROM query WHERE dimensions =
        (SELECT rag_functions.vector_dims(v) FROM %s WHERE v IS NOT NULL LIMIT 1) LIMIT 1',
        relation) INTO q;
    IF q IS NULL THEN
        RETURN 'there is no row, or no query';
    END IF;
    found := nearest(relation, operator, q, NULL);
    found := ARRAY(SELECT id FROM unnest(found) AS f (id) ORDER BY 1);
    EXECUTE format('SELECT array_agg(id ORDER BY id) FROM %s WHERE v IS NOT NULL', relation)
    INTO there;
    IF found <> there THEN
        RETURN format('the index has %s rows, %s of them different, the table has %s',
        cardinality(found),
            (SELECT count(DISTINCT id) FROM unnest(found) AS f (id)), cardinality(there));
    END IF;
    IF with_recall THEN
        share := recall(relation, operator, 10);
        IF share < 0.95 THEN
            RETURN format('recall is %s', share);
        END IF;
    END IF;
    RETURN '';
END $$;
SQL

# Returns a running node with the extension and the tools. Without preload, because no test here
# needs rag-engine. Option: conf.
sub hnsw_node
{
	my ($name, %option) = @_;
	my $conf =
	  "autovacuum = off\njit = off\nmax_parallel_maintenance_workers = 1\n" . ($option{conf} // '');
	my $node = rag_node($name, preload => 0, conf => $conf);
	$node->safe_psql('postgres', $tools);
	add_queries($node, $_) for @dimensions;
	return $node;
}

# Adds centres and queries with a number of dimensions.
sub add_queries
{
	my ($node, $dimensions) = @_;
	$node->safe_psql(
		'postgres', "SELECT setseed(0.1);
		INSERT INTO centre SELECT $dimensions, i, noise($dimensions, 2)
		FROM generate_series(0, 39) i;
		INSERT INTO query SELECT $dimensions, point($dimensions) FROM generate_series(1, 20)");
	return;
}

# Checks that rag_check_index finds nothing, that a full scan returns every row once, and that the
# 10 nearest are found (recall of at least .95, in order).
sub index_is_correct
{
	my ($node, $table, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is($node->safe_psql('postgres', "SELECT fault('$table') || unindexed('$table')"), '',
		$name);
}

my %operator = (l2 => '<->', ip => '<#>', cosine => '<=>');

# The recall of a search with few candidates shows the quality of the graph.
sub narrow_recall
{
	my ($node, $table, $metric) = @_;
	return $node->safe_psql(
		'postgres',
		"ALTER FUNCTION nearest SET rag.ef_search = 20;
			SELECT recall('$table', '$operator{$metric}', 10);
		ALTER FUNCTION nearest SET rag.ef_search = 200");
}

# Recall stays the same through inserts, deletes, vacuums and updates of a table with all metrics.
sub recall_survives_cycles
{
	my ($node, $dimensions, $n) = @_;
	for my $metric (sort keys %operator)
	{
		my $name = "$dimensions dimensions, $metric";
		my $table = "t_${dimensions}_$metric";
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
		my $worn = narrow_recall($node, $table, $metric);
		my $pages = $node->safe_psql('postgres',
			"SELECT pages FROM rag_hnsw_info((SELECT index FROM hnsw_index('$table')))");
		$node->safe_psql('postgres', "REINDEX TABLE $table");
		index_is_correct($node, $table, "$name: correct after REINDEX");
		cmp_ok(
			$worn, '>=',
			narrow_recall($node, $table, $metric) - 0.06,
			"$name: recall after cycles is close to that of a new index");
		cmp_ok(
			$pages, '<',
			2 * $node->safe_psql(
				'postgres',
				"SELECT pages FROM rag_hnsw_info((SELECT index FROM hnsw_index('$table')))"),
			"$name: the index has less than twice the size of a new one");
	}
	return;
}

1;
