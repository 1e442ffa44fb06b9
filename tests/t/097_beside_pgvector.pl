# The type beside tables of an application, and beside pgvector.
#
# pgvector is not there to be tested with. What stands for it is an extension of its name with a
# type, a function and an operator of its names, entered into the catalog by hand; whether names are
# unique and what DROP EXTENSION takes with it is PostgreSQL's own to decide from that.
use strict;
use warnings;
use Test::More;
use RagCluster;

my $node = rag_node('beside_pgvector', preload => 0);
my $sql = sub { return $node->safe_psql('postgres', @_) };

# -- in search_path the schema of the type shows the type alone
is($sql->(q{SELECT string_agg(typname, ' ' ORDER BY typname) FROM pg_type WHERE typnamespace = 'rag_types'::regnamespace}), '_vector vector', 'one type');
is($sql->(q{SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = n) + (SELECT count(*) FROM pg_proc WHERE pronamespace = n)
	+ (SELECT count(*) FROM pg_operator WHERE oprnamespace = n) FROM (SELECT 'rag_types'::regnamespace AS n) AS n}), '0', 'and nothing else');
is($sql->(q{SELECT count(*) FROM pg_class WHERE relnamespace = 'rag_functions'::regnamespace}), '0', 'no table is beside the functions');
my $application = 'SET search_path = public, rag_types;';
for my $name (split /\|/, $sql->(q{SELECT string_agg(relname, '|') FROM pg_class WHERE relnamespace = 'rag'::regnamespace AND relkind IN ('r', 'p', 'v')}))
{
	my $table = $sql->(qq{$application CREATE TABLE IF NOT EXISTS "$name" (id int, v vector(3)); SELECT '"$name"'::regclass::oid = 'public."$name"'::regclass});
	$table eq 't' or fail("a table of an application named $name");
}
is($sql->(qq{$application INSERT INTO documents VALUES (1, '[1,2,3]'), (2, '[3,2,1]'); CREATE INDEX ON documents USING rag_hnsw (v vector_l2_ops);
	SELECT id, avg(v) FROM documents GROUP BY id ORDER BY avg(v) <-> '[3,2,2]' LIMIT 1}), '2|[3,2,1]', 'tables of an application have the names of the catalog');

# -- pgvector's settings and names
is($sql->(q{SET rag.iterative_scan = strict_order; SET rag.iterative_scan = relaxed_order; SHOW rag.iterative_scan}), 'relaxed_order', "pgvector's names of the orders are taken");
is($sql->(q{SELECT rag_functions.binary_quantize('[1,0,-1,2,3,4,5,6,7]')}), '100111111', 'binary_quantize');
is($sql->(q{SELECT rag_functions.binary_quantize('[0.5]')::bit(3) || B'', count(*) FROM generate_series(1, 3)}), '100|3', 'whose result is a bit string');
is($sql->(q{SELECT length(rag_functions.binary_quantize(array_fill(1, ARRAY[16000])::rag_types.vector))}), '16000', 'of as many bits as elements');

# -- pgvector
sub create_pgvector
{
	$sql->(<<'SQL');
CREATE SCHEMA pgvector;
INSERT INTO pg_extension SELECT (SELECT max(oid::bigint) + 1 FROM pg_extension)::oid, 'vector', extowner, 'pgvector'::regnamespace, false, '0', NULL, NULL
	FROM pg_extension WHERE extname = 'rag';
CREATE TYPE pgvector.vector;
CREATE FUNCTION pgvector.vector_in(cstring) RETURNS pgvector.vector AS 'textin' LANGUAGE internal IMMUTABLE STRICT;
CREATE FUNCTION pgvector.vector_out(pgvector.vector) RETURNS cstring AS 'textout' LANGUAGE internal IMMUTABLE STRICT;
CREATE TYPE pgvector.vector (INPUT = pgvector.vector_in, OUTPUT = pgvector.vector_out, STORAGE = external);
CREATE FUNCTION pgvector.vector_norm(pgvector.vector) RETURNS float8 AS 'SELECT 5::float8' LANGUAGE sql;
ALTER EXTENSION vector ADD FUNCTION pgvector.vector_in(cstring);
ALTER EXTENSION vector ADD FUNCTION pgvector.vector_out(pgvector.vector);
ALTER EXTENSION vector ADD FUNCTION pgvector.vector_norm(pgvector.vector);
ALTER EXTENSION vector ADD TYPE pgvector.vector;
SQL
	return;
}
my $casts = q{SELECT count(*) FROM pg_cast WHERE 'pgvector.vector'::regtype IN (castsource, casttarget) AND 'rag_types.vector'::regtype IN (castsource, casttarget)};

create_pgvector();
is($sql->(q{SET search_path = public, pgvector, rag_types; SELECT vector_norm('[3,4]')}), '5', 'functions of pgvector are unique');
is($sql->('SELECT rag_pgvector_casts()'), 't', 'casts are created');
is($sql->($casts), '2', 'both ways');
is($sql->('SELECT rag_pgvector_casts()'), 't', 'and once');
is($sql->(q{SELECT count(*) FROM pg_depend WHERE classid = 'pg_cast'::regclass AND refclassid = 'pg_extension'::regclass AND deptype = 'x'}), '4', 'each goes with either extension');
$sql->('CREATE TABLE kept (v rag_types.vector); DROP EXTENSION vector; DROP SCHEMA pgvector');
is($sql->('SELECT count(*) FROM kept'), '0', 'pgvector is dropped alone');

create_pgvector();
# as a dump has them
$sql->('CREATE CAST (pgvector.vector AS rag_types.vector) WITHOUT FUNCTION AS ASSIGNMENT');
error_like(run_sql($node, 'DROP EXTENSION vector'), '2BP01', 'cannot drop extension vector', 'CASCADE', 'casts of a dump keep it');
is($sql->('SELECT rag_pgvector_casts()'), 't', 'until they are made those of both');
$sql->('CREATE TABLE theirs (v pgvector.vector); DROP TABLE kept, documents; DROP EXTENSION rag CASCADE');
is($sql->('SELECT count(*) FROM theirs'), '0', 'the extension is dropped without pgvector');
is($sql->(q{SELECT count(*) FROM pg_cast WHERE castsource = 'pgvector.vector'::regtype}), '0', 'with the casts');

# -- created where pgvector is there already
$sql->(q{CREATE EXTENSION rag});
is($sql->($casts), '2', 'CREATE EXTENSION creates the casts');
$sql->('DROP TABLE theirs; DROP EXTENSION vector');
is($sql->(q{SELECT '[1,2]'::rag_types.vector}), '[1,2]', 'and pgvector can be dropped from beside it');

$node->stop;
done_testing();
