# The type beside tables of an application, and beside pgvector.
#
# pgvector is not available for this test. The test creates an extension with the same name, and a
# type, a function and an operator with the same names, by writing to the system catalogs.
# PostgreSQL alone decides from these whether names are ambiguous and what DROP EXTENSION drops.
use strict;
use warnings;
use Test::More;
use RagCluster;

my $node = rag_node('beside_pgvector', preload => 0);
my $sql = sub { return $node->safe_psql('postgres', @_) };

# -- the schema of the types contributes only these to search_path
is( $sql->(
		q{SELECT string_agg(typname, ' ' ORDER BY typname) FROM pg_type
			WHERE typnamespace = 'rag_types'::regnamespace}
	),
	'_halfvec _vector halfvec vector',
	'schema rag_types contains the types of vectors');
is( $sql->(
		q{SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = n) + (SELECT count(*)
			FROM pg_proc WHERE pronamespace = n)
	+ (SELECT count(*) FROM pg_operator WHERE oprnamespace = n)
	FROM (SELECT 'rag_types'::regnamespace AS n) AS n}
	),
	'0',
	'schema rag_types contains no tables, functions or operators');
is($sql->(q{SELECT count(*) FROM pg_class WHERE relnamespace = 'rag_functions'::regnamespace}),
	'0', 'schema rag_functions contains no tables');
my $application = 'SET search_path = public, rag_types;';
for my $name (
	split /\|/,
	$sql->(
		q{SELECT string_agg(relname, '|') FROM pg_class WHERE relnamespace = 'rag'::regnamespace
			AND relkind IN ('r', 'p', 'v')}
	))
{
	my $table = $sql->(
		qq{$application CREATE TABLE IF NOT EXISTS "$name" (id int, v vector(3));
			SELECT '"$name"'::regclass::oid = 'public."$name"'::regclass}
	);
	$table eq 't' or fail("an application can create and use a table named $name");
}
is( $sql->(
		qq{$application INSERT INTO documents VALUES (1, '[1,2,3]'), (2, '[3,2,1]');
			CREATE INDEX ON documents USING rag_hnsw (v vector_l2_ops);
	SELECT id, avg(v) FROM documents GROUP BY id ORDER BY avg(v) <-> '[3,2,2]' LIMIT 1}),
	'2|[3,2,1]',
	'tables of an application can have names of the catalog');

# -- pgvector's settings and names
is( $sql->(
		q{SET rag.iterative_scan = strict_order; SET rag.iterative_scan = relaxed_order;
			SHOW rag.iterative_scan}
	),
	'relaxed_order',
	"rag.iterative_scan accepts the names of pgvector");
is($sql->(q{SELECT rag_functions.binary_quantize('[1,0,-1,2,3,4,5,6,7]')}),
	'100111111', 'binary_quantize returns the signs of the elements');
is( $sql->(
		q{SELECT rag_functions.binary_quantize('[0.5]')::bit(3) || B'', count(*)
			FROM generate_series(1, 3)}
	),
	'100|3',
	'binary_quantize returns a bit string');
is( $sql->(
		q{SELECT length(rag_functions.binary_quantize(array_fill(1,
			ARRAY[16000])::rag_types.vector))}
	),
	'16000',
	'binary_quantize returns one bit for each element');

# -- pgvector
sub create_pgvector
{
	$sql->(<<'SQL');
CREATE SCHEMA pgvector;
INSERT INTO pg_extension SELECT (SELECT max(oid::bigint) + 1 FROM pg_extension)::oid, 'vector',
extowner, 'pgvector'::regnamespace, false, '0', NULL, NULL
	FROM pg_extension WHERE extname = 'rag';
CREATE TYPE pgvector.vector;
CREATE FUNCTION pgvector.vector_in(cstring) RETURNS pgvector.vector AS 'textin'
LANGUAGE internal IMMUTABLE STRICT;
CREATE FUNCTION pgvector.vector_out(pgvector.vector) RETURNS cstring AS 'textout'
LANGUAGE internal IMMUTABLE STRICT;
CREATE TYPE pgvector.vector (INPUT = pgvector.vector_in, OUTPUT = pgvector.vector_out,
STORAGE = external);
CREATE FUNCTION pgvector.vector_norm(pgvector.vector) RETURNS float8 AS 'SELECT 5::float8'
LANGUAGE sql;
ALTER EXTENSION vector ADD FUNCTION pgvector.vector_in(cstring);
ALTER EXTENSION vector ADD FUNCTION pgvector.vector_out(pgvector.vector);
ALTER EXTENSION vector ADD FUNCTION pgvector.vector_norm(pgvector.vector);
ALTER EXTENSION vector ADD TYPE pgvector.vector;
SQL
	return;
}
my $casts =
  q{SELECT count(*) FROM pg_cast WHERE 'pgvector.vector'::regtype IN (castsource, casttarget)
  AND 'rag_types.vector'::regtype IN (castsource, casttarget)};

create_pgvector();
is($sql->(q{SET search_path = public, pgvector, rag_types; SELECT vector_norm('[3,4]')}),
	'5', 'calls of functions of pgvector are unambiguous');
is($sql->('SELECT rag_pgvector_casts()'), 't', 'rag_pgvector_casts creates casts');
is($sql->($casts), '2', 'casts exist in both directions');
is($sql->('SELECT rag_pgvector_casts()'), 't', 'rag_pgvector_casts creates the casts once');
is( $sql->(
		q{SELECT count(*) FROM pg_depend WHERE classid = 'pg_cast'::regclass
		AND refclassid = 'pg_extension'::regclass AND deptype = 'x'}
	),
	'4',
	'each cast depends on both extensions');
$sql->('CREATE ROLE administrator IN ROLE rag_admin');
error_like(
	run_sql($node, 'SET ROLE administrator; SELECT rag_pgvector_casts()'),
	'42501', 'permission denied to create casts',
	'superuser', 'only superusers create casts');
$sql->('CREATE TABLE kept (v rag_types.vector); DROP EXTENSION vector; DROP SCHEMA pgvector');
is($sql->('SELECT count(*) FROM kept'), '0', 'pgvector can be dropped alone');

create_pgvector();
# as in a dump
$sql->('CREATE CAST (pgvector.vector AS rag_types.vector) WITHOUT FUNCTION AS ASSIGNMENT');
error_like(
	run_sql($node, 'DROP EXTENSION vector'),
	'2BP01', 'cannot drop extension vector',
	'CASCADE', 'restored casts prevent dropping pgvector');
is($sql->('SELECT rag_pgvector_casts()'),
	't', 'rag_pgvector_casts makes restored casts depend on both extensions');
$sql->(
		'CREATE TABLE theirs (v pgvector.vector); DROP TABLE kept, documents; DROP EXTENSION rag '
	  . 'CASCADE');
is($sql->('SELECT count(*) FROM theirs'), '0', 'the extension can be dropped without pgvector');
is($sql->(q{SELECT count(*) FROM pg_cast WHERE castsource = 'pgvector.vector'::regtype}),
	'0', 'the casts are dropped with the extension');

# -- CREATE EXTENSION with pgvector installed
$sql->(q{CREATE EXTENSION rag});
is($sql->($casts), '2', 'CREATE EXTENSION creates the casts');
$sql->('DROP TABLE theirs; DROP EXTENSION vector');
is($sql->(q{SELECT '[1,2]'::rag_types.vector}),
	'[1,2]', 'pgvector can be dropped after the extension was created again');

$node->stop;
done_testing();
