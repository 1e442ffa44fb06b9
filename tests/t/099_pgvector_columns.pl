# Indexes of rag_hnsw on columns of pgvector's types, and on bit: pgvector's operators use them, and
# either extension can be dropped.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;

my $node = rag_node('pgvector_columns', preload => 0, conf => "autovacuum = off\njit = off\n");
my $sql = sub { return $node->safe_psql('postgres', @_) };
if ($sql->(q{SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'}) eq '0')
{
	$node->stop;
	plan skip_all => 'pgvector is not installed';
}

my %operator = (l2 => '<->', ip => '<#>', cosine => '<=>', l1 => '<+>');

# Rows of a table of pgvector's vectors, and queries beside it.
sub fill
{
	my ($table, $dimensions, $rows, $path) = @_;
	$sql->(
		"SET search_path = public, $path; SELECT setseed(0.4);
		CREATE TABLE $table (id int PRIMARY KEY, kind int, embedding vector($dimensions));
		INSERT INTO $table SELECT i, i % 10, (SELECT array_agg(random() + (i % 20 = d % 20)::int)
			FROM generate_series(1, $dimensions) d)::vector FROM generate_series(1, $rows) i;
		INSERT INTO $table VALUES (0, 0, NULL);
		ANALYZE $table"
	);
	return;
}

# Compares a search by the index with one without it.
sub same_rows
{
	my ($table, $metric, $path, $name) = @_;
	my $search = "SELECT string_agg(id::text, ' ' ORDER BY n) FROM (
		SELECT row_number() OVER () AS n, id FROM (
			SELECT id FROM $table WHERE embedding IS NOT NULL ORDER BY embedding
			$operator{$metric} (SELECT embedding FROM $table WHERE id = 7) LIMIT 20) s) s";
	my $settings = "SET search_path = public, $path; SET rag.ef_search = 200;";
	my $found = $sql->("$settings SET enable_seqscan = off; $search");
	my $exact = $sql->("$settings SET enable_indexscan = off; $search");
	# Taxicab distances are searched by Euclidean ones. The index is approximate: it may miss a row.
	my $nearest = $metric eq 'l1' ? 3 : 20;
	my ($first, $expected) = map { [ (split / /)[ 0 .. $nearest - 1 ] ] } $found, $exact;
	my %is_found = map { $_ => 1 } @$first;
	my %is_nearest = map { $_ => 1 } @$expected;
	my @both = grep { $is_found{$_} } @$expected;
	is("@{[ grep { $is_nearest{$_} } @$first ]}", "@both", "$name: rows are in their order");
	cmp_ok(scalar(@both), '>=', 0.95 * $nearest, "$name: the index returns the nearest rows")
	  or diag("found $found, nearest are $exact");
	my $plan = $sql->(
		"$settings SET enable_seqscan = off; EXPLAIN (COSTS off) SELECT id FROM $table
		ORDER BY embedding $operator{$metric} (SELECT embedding FROM $table WHERE id = 7)
		LIMIT 20"
	);
	like($plan, qr/Index Scan using ${table}_embedding_idx/,
		"$name: pgvector's operator uses the index");
	return;
}

sub check_index
{
	my ($table, $name) = @_;
	is($sql->("SELECT problem FROM rag_check_index('${table}_embedding_idx')"),
		'', "$name: the check finds nothing");
	return;
}

# -- pgvector comes after the extension
# ----------------------------------------

$sql->('CREATE EXTENSION vector');
fill('items', 24, 3000, 'public');
for my $metric (sort keys %operator)
{
	$sql->("CREATE INDEX items_embedding_idx ON items USING rag_hnsw (embedding
		vector_${metric}_ops)");
	same_rows('items', $metric, 'public', $metric);
	check_index('items', $metric);
	$sql->(
		q{UPDATE items SET embedding = embedding + embedding WHERE kind = 3;
		DELETE FROM items WHERE kind = 4;
		INSERT INTO items SELECT id + 10000, 4, embedding FROM items WHERE kind = 5});
	$sql->('VACUUM items');
	same_rows('items', $metric, 'public', "$metric, after changes");
	check_index('items', "$metric, after changes");
	cmp_ok(
		$sql->("SELECT max(recall) FROM rag_hnsw_recall('items_embedding_idx', 20)"),
		'>', $metric eq 'l1' ? 0.5 : 0.9,
		"$metric: rag_hnsw_recall measures such an index");
	$sql->('DROP INDEX items_embedding_idx; DELETE FROM items WHERE id > 10000');
}

# -- forms of queries
# ----------------------------------------

$sql->(q{CREATE INDEX items_embedding_idx ON items USING rag_hnsw (embedding vector_cosine_ops)
	WITH (m = 8, ef_construction = 32)});
my $forms = q{SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan;
	PREPARE nearest(vector) AS SELECT id FROM items ORDER BY embedding <=> $1 LIMIT 3;};
my $vector = $sql->('SELECT embedding FROM items WHERE id = 7');
like($sql->("$forms EXPLAIN (COSTS off) EXECUTE nearest('$vector')"),
	qr/Index Scan/, 'a prepared statement uses the index');
like($sql->("$forms EXECUTE nearest('$vector')"), qr/^7\n/, 'a prepared statement finds the row');
like(
	$sql->(
		"SET enable_seqscan = off; EXPLAIN (COSTS off) SELECT id FROM items WHERE kind = 7
			ORDER BY '$vector' <=> embedding LIMIT 3"),
	qr/Index Scan/,
	'the column may be on the right');
is( $sql->(
		"SET enable_seqscan = off; SELECT id FROM items WHERE kind = 7
			ORDER BY '$vector' <=> embedding LIMIT 1"),
	'7',
	'a filter beside the order');
is( $sql->(
		'SET enable_seqscan = off; SELECT count(*) FROM (SELECT id FROM items
			ORDER BY embedding <=> (SELECT NULL::vector)) s'),
	$sql->('SELECT count(*) FROM items WHERE embedding IS NOT NULL'),
	'a query that is NULL returns all rows');
error_like(run_sql($node, "SET enable_seqscan = off; SELECT id FROM items
	ORDER BY embedding <=> '[1,2]' LIMIT 1"), '22000', 'different vector dimensions', undef,
	'a query of other dimensions is an error');

# -- halfvec and bit
# ----------------------------------------

my $has_halfvec = $sql->(q{SELECT to_regtype('public.halfvec') IS NOT NULL}) eq 't';
SKIP:
{
	skip 'this version of pgvector has no halfvec', 1 unless $has_halfvec;
	$sql->(
		q{CREATE TABLE halves (id int PRIMARY KEY, kind int, embedding halfvec(24));
		INSERT INTO halves SELECT id, kind, embedding FROM items; ANALYZE halves}
	);
	for my $metric (sort keys %operator)
	{
		$sql->("CREATE INDEX halves_embedding_idx ON halves USING rag_hnsw (embedding
			halfvec_${metric}_ops)");
		same_rows('halves', $metric, 'public', "halfvec, $metric");
		$sql->(
			q{UPDATE halves SET embedding = embedding + embedding WHERE kind = 3;
			DELETE FROM halves WHERE kind = 4;
			INSERT INTO halves SELECT id + 10000, 4,
				embedding - (SELECT embedding FROM halves WHERE id = 1)
				FROM halves WHERE kind = 5});
		$sql->('VACUUM halves');
		same_rows('halves', $metric, 'public', "halfvec, $metric, after changes");
		check_index('halves', "halfvec, $metric");
		cmp_ok(
			$sql->("SELECT max(recall) FROM rag_hnsw_recall('halves_embedding_idx', 20)"),
			'>', $metric eq 'l1' ? 0.5 : 0.9,
			"halfvec, $metric: rag_hnsw_recall measures such an index");
		$sql->('DROP INDEX halves_embedding_idx; DELETE FROM halves WHERE id > 10000');
	}
	is( $sql->(
			q{SELECT count(*) FROM (SELECT a.embedding AS a, b.embedding AS b,
				a.embedding::rag_types.halfvec AS c, b.embedding::rag_types.halfvec AS d
				FROM halves a, halves b WHERE a.id < 40 AND b.id < 40) AS pairs
			WHERE greatest(abs((a <-> b) - (c <-> d)), abs((a <#> b) - (c <#> d)),
				abs((a <=> b) - (c <=> d)), abs((a <+> b) - (c <+> d)))
				> 1e-6 * greatest(1, abs(a <#> b))}
		),
		'0',
		'distances of halfvec are those of pgvector');
	is( $sql->(
			q{SELECT count(*) FROM (SELECT embedding, embedding::rag_types.halfvec AS own
				FROM halves)
				AS s WHERE own::text <> embedding::text
				OR rag_internal.halfvec_send(own) <> halfvec_send(embedding)}
		),
		'0',
		'text and binary form of halfvec are those of pgvector');
	$sql->('CREATE INDEX halves_of_items ON items USING rag_hnsw
			((embedding::halfvec(24)) halfvec_l2_ops)');
	like($sql->("SET enable_seqscan = off; EXPLAIN (COSTS off) SELECT id FROM items
			ORDER BY embedding::halfvec(24) <-> '$vector' LIMIT 3"),
		qr/Index Scan using halves_of_items/, 'an index on an expression of halfvec');
	$sql->(
		q{CREATE TABLE bits (id int PRIMARY KEY, embedding bit(24));
		INSERT INTO bits SELECT id, binary_quantize(embedding - (SELECT avg(embedding) FROM items))
		FROM items; ANALYZE bits});
	for my $class ([ 'hamming', '<~>' ], [ 'jaccard', '<%>' ])
	{
		my ($name, $operator) = @$class;
		$sql->("CREATE INDEX bits_embedding_idx ON bits USING rag_hnsw
			(embedding bit_${name}_ops)");
		for my $schema ('public', 'rag_functions')
		{
			my $search = "SELECT embedding OPERATOR($schema.$operator)
				(SELECT embedding FROM bits WHERE id = 7) AS d FROM bits ORDER BY d LIMIT 20";
			like($sql->("SET enable_seqscan = off; SET enable_sort = off;
					EXPLAIN (COSTS off) $search"),
				qr/Index Scan using bits_embedding_idx/, "$schema.$operator uses an index");
			my $found = $sql->("SET enable_seqscan = off; SET rag.ef_search = 200; $search");
			my $exact = $sql->("SET enable_indexscan = off; $search");
			is($found, $exact, "$schema.$operator: the index returns the nearest rows");
		}
		check_index('bits', $name);
		$sql->('DROP INDEX bits_embedding_idx');
	}
	$sql->('DROP TABLE halves, bits; DROP INDEX halves_of_items');
}

# vectors out of line, and in rows of their own
fill('wide', 1500, 300, 'public');
$sql->('CREATE INDEX wide_embedding_idx ON wide USING rag_hnsw (embedding vector_l2_ops)');
same_rows('wide', 'l2', 'public', 'vectors out of line');
is( $sql->(
		q{SELECT string_agg(opcname, ' ') FROM pg_opclass c JOIN pg_am a ON a.oid = opcmethod
			WHERE amname = 'rag_hnsw' AND NOT amvalidate(c.oid)}
	),
	'',
	'the operator classes are valid');

# -- a dump
# ----------------------------------------

my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
$node->command_ok([ 'pg_dump', "--file=$dump", '--dbname', $node->connstr('postgres') ],
	'such a database can be dumped');
$sql->('CREATE DATABASE restored');
$node->command_ok(
	[
		'psql', '--no-psqlrc', '--quiet', '--set=ON_ERROR_STOP=1', "--file=$dump",
		$node->connstr('restored')
	],
	'and restored without an error');
my $restored = sub { return $node->safe_psql('restored', @_) };
like(
	$restored->(
		"SET enable_seqscan = off; EXPLAIN (COSTS off) SELECT id FROM items
			ORDER BY embedding <=> '$vector' LIMIT 3"),
	qr/Index Scan/,
	'pgvector\'s operators use a restored index');
$restored->('DROP TABLE items, wide; DROP EXTENSION vector');
is($restored->(q{SELECT '[1,2]'::rag_types.vector}),
	'[1,2]', 'pgvector can be dropped after the restore');

# -- DROP EXTENSION
# ----------------------------------------

error_like(run_sql($node, 'DROP EXTENSION rag'),
	'2BP01', 'cannot drop extension rag because other objects depend on it',
	qr/CASCADE/, 'an index prevents dropping the extension');
error_like(run_sql($node, 'DROP EXTENSION vector'),
	'2BP01', 'cannot drop extension vector because other objects depend on it',
	qr/CASCADE/, 'a column prevents dropping pgvector');
$sql->('DROP EXTENSION rag CASCADE');
is($sql->('SELECT count(embedding) > 0 FROM items'), 't', 'the vectors stay');
is( $sql->(q{SELECT count(*) FROM pg_indexes WHERE indexname LIKE '%\_embedding\_idx'}),
	'0', 'the indexes go with the extension');

# -- pgvector is there before the extension, in a schema of its own
# ----------------------------------------

$sql->('DROP TABLE items, wide; DROP EXTENSION vector; CREATE SCHEMA "odd one";
	CREATE EXTENSION vector SCHEMA "odd one"; CREATE EXTENSION rag');
fill('elsewhere', 8, 500, '"odd one"');
$sql->('SET search_path = public, "odd one";
	CREATE INDEX ON elsewhere USING rag_hnsw (embedding vector_l2_ops)');
same_rows('elsewhere', 'l2', '"odd one"', 'pgvector in another schema');
check_index('elsewhere', 'pgvector in another schema');
$sql->('DROP TABLE elsewhere; DROP EXTENSION vector');
is($sql->(q{SELECT count(*) FROM pg_amop p JOIN pg_opfamily f ON f.oid = p.amopfamily
		JOIN pg_am a ON a.oid = f.opfmethod WHERE a.amname = 'rag_hnsw'}),
	'10', 'the operators of pgvector leave the operator families');

# -- an owner of a database, who is no superuser
# ----------------------------------------

# some packages of pgvector let such a role create it
my $creator = $sql->(q{SELECT CASE WHEN bool_or(trusted) THEN 'owner' ELSE 'postgres' END
	FROM pg_available_extension_versions WHERE name = 'vector'});
$sql->('CREATE ROLE owner LOGIN; CREATE DATABASE owned OWNER owner');
$node->safe_psql('owned', "CREATE EXTENSION rag; SET ROLE $creator; CREATE EXTENSION vector");
is( $node->safe_psql(
		'owned',
		q{SET ROLE owner; CREATE SCHEMA mine; SET search_path = mine, public;
			CREATE TABLE items (v vector(3));
			CREATE INDEX ON items USING rag_hnsw (v vector_l2_ops);
			INSERT INTO items VALUES ('[1,2,3]'); SET enable_seqscan = off;
			SELECT v FROM items ORDER BY v <-> '[3,2,1]'}
	),
	'[1,2,3]',
	'an owner of the database creates an index');

$node->stop;
done_testing();
