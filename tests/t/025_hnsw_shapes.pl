# Unusual data and tables: equal vectors, 1 and 16,000 dimensions, more than fits into
# maintenance_work_mem, unlogged and temporary tables, partitions, partial and expression indexes,
# dump and restore.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;
use RagHnsw;

my $node = hnsw_node('shapes');

sub sql { return $node->safe_psql('postgres', @_) }

# -- vectors
# ----------------------------------------

# 10,000 equal vectors, half of them built and half inserted, among others
sql("CREATE TABLE equal (id int PRIMARY KEY, v rag_types.vector); SELECT setseed(0.2);
	INSERT INTO equal SELECT i, point(64) FROM generate_series(1, 500) i;
	INSERT INTO equal SELECT 1000 + i, (SELECT v FROM equal WHERE id = 7)
	FROM generate_series(1, 5000) i;
	CREATE INDEX equal_v ON equal USING rag_hnsw (v vector_cosine_ops);
	INSERT INTO equal SELECT 1000 + i, (SELECT v FROM equal WHERE id = 7)
	FROM generate_series(5001, 10000) i"
);
index_is_correct($node, 'equal', '10,000 equal vectors: the index is correct');
cmp_ok(
	sql("SELECT count(*) FROM equal q, unnest(nearest('equal', '<=>', q.v, 20)) n
		JOIN unnest(exact('equal', '<=>', q.v, 20)) e ON n = e
	WHERE q.id = 8 AND n <= 500"),
	'>=',
	19,
	'10,000 equal vectors do not hide other rows');
is(sql("SELECT vectors, nodes FROM rag_hnsw_info('equal_v')"),
	'10500|500', '10,000 equal vectors share one node');
sql('DELETE FROM equal WHERE id > 1000 AND id % 100 <> 0');
sql('VACUUM equal');
index_is_correct($node, 'equal', 'equal vectors: the index is correct after most are deleted');
sql('INSERT INTO equal SELECT 20000 + i, (SELECT v FROM equal WHERE id = 7)
	FROM generate_series(1, 1000) i; DELETE FROM equal WHERE id BETWEEN 1000 AND 20500'
);
sql('VACUUM equal');
index_is_correct($node, 'equal', 'equal vectors: the index is correct after inserting some again');
sql('DELETE FROM equal WHERE v = (SELECT v FROM equal WHERE id = 7)');
sql('VACUUM equal');
index_is_correct($node, 'equal', 'equal vectors: the index is correct after all are deleted');
is(sql("SELECT vectors FROM rag_hnsw_info('equal_v')"),
	'499', 'equal vectors: other rows remain after all are deleted');

add_queries($node, 16000);
for my $shape ([ 1, 'l2', 2000 ], [ 1, 'cosine', 500 ], [ 16000, 'l2', 60 ], [ 16000, 'ip', 60 ])
{
	my ($dimensions, $metric, $n) = @$shape;
	my $table = "d_${dimensions}_$metric";
	sql("CREATE TABLE $table (id int PRIMARY KEY, v rag_types.vector); SELECT setseed(0.3);
		INSERT INTO $table SELECT i, point($dimensions) FROM generate_series(1, $n) i;
		CREATE INDEX ${table}_v ON $table USING rag_hnsw (v vector_${metric}_ops);
		INSERT INTO $table SELECT i, point($dimensions) FROM generate_series($n + 1, $n + 20) i;
		DELETE FROM $table WHERE id % 3 = 0");
	sql("VACUUM $table");
	index_is_correct($node, $table, "$dimensions dimensions, $metric: the index is correct");
}

# NULL and the zero vector, which has no direction, are not in the index
sql("CREATE TABLE gaps (id int PRIMARY KEY, v rag_types.vector); SELECT setseed(0.4);
	INSERT INTO gaps SELECT i, CASE i % 3 WHEN 0 THEN NULL
	WHEN 1 THEN array_fill(0, ARRAY[64])::rag_types.vector ELSE point(64) END
	FROM generate_series(1, 900) i;
	CREATE INDEX gaps_v ON gaps USING rag_hnsw (v vector_cosine_ops);
	INSERT INTO gaps SELECT 900 + id, v FROM gaps");
is( sql("SELECT vectors, (SELECT count(*) FROM rag_check_index('gaps_v'))
	FROM rag_hnsw_info('gaps_v')"
	),
	'600|0',
	'NULLs and zero vectors are not indexed');

# -- builds beyond maintenance_work_mem
# ----------------------------------------

sql("CREATE TABLE large (id int PRIMARY KEY, v rag_types.vector); SELECT setseed(0.5);
	INSERT INTO large SELECT i, point(3) FROM generate_series(1, 20000) i"
);
my $build = run_sql(
	$node,
	"SET maintenance_work_mem = '1MB';
		CREATE INDEX large_v ON large USING rag_hnsw (v vector_l2_ops) WITH (ef_construction = 40)"
);
like(
	$build->{err},
	qr/NOTICE: .*maintenance_work_mem.*\nDETAIL: .*\nHINT:  Set maintenance_work_mem to \d+ MB\./,
	'a build that exceeds maintenance_work_mem raises a notice');
is($build->{rc}, 0, 'a build that exceeds maintenance_work_mem succeeds');
index_is_correct($node, 'large', 'an index built with too little maintenance_work_mem is correct');
my ($megabytes) = $build->{err} =~ /Set maintenance_work_mem to (\d+) MB/;
$build = run_sql($node, "SET maintenance_work_mem = '${megabytes}MB'; REINDEX INDEX large_v");
is($build->{err}, '', 'the suggested maintenance_work_mem is sufficient');
index_is_correct($node, 'large',
	'an index built with the suggested maintenance_work_mem is correct');

# -- tables
# ----------------------------------------

# an unlogged table is empty after a crash and can be used again
sql("CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY, v rag_types.vector); SELECT setseed(0.6);
	INSERT INTO unlogged SELECT i, point(64) FROM generate_series(1, 1000) i;
	CREATE INDEX unlogged_v ON unlogged USING rag_hnsw (v vector_l2_ops)");
index_is_correct($node, 'unlogged', 'unlogged');
$node->restart;
index_is_correct($node, 'unlogged', 'an unlogged index keeps its rows after a clean shutdown');
crash($node);
is(sql("SELECT count(*) FROM unlogged"), '0', 'a crash empties an unlogged table');
is( sql("SELECT nearest('unlogged', '<->', (SELECT v FROM query WHERE dimensions = 64 LIMIT 1),
	NULL)"
	),
	'{}',
	'a crash empties an unlogged index');
is(sql("SELECT count(*) FROM rag_check_index('unlogged_v')"),
	'0', 'an emptied unlogged index is correct');
sql('SELECT setseed(0.7); INSERT INTO unlogged SELECT i, point(64) FROM generate_series(1, 500) i');
index_is_correct($node, 'unlogged', 'rows can be inserted into an emptied unlogged index');
sql('ALTER TABLE unlogged SET LOGGED');
crash($node);
index_is_correct($node, 'unlogged', 'an index that became logged keeps its rows after a crash');

is( sql("CREATE TEMP TABLE temporary (id int PRIMARY KEY, v rag_types.vector)
	ON COMMIT PRESERVE ROWS; SET temp_buffers = '800kB';
	SELECT setseed(0.8); INSERT INTO temporary SELECT i, point(384) FROM generate_series(1, 500) i;
	CREATE INDEX ON temporary USING rag_hnsw (v vector_l2_ops);
	INSERT INTO temporary SELECT i, point(384) FROM generate_series(501, 800) i;
	DELETE FROM temporary WHERE id % 3 = 0;
	VACUUM temporary; INSERT INTO temporary SELECT 1000 + i, point(384)
	FROM generate_series(1, 100) i;
	SELECT 'fault:' || fault('temporary') || unindexed('temporary')") =~ s/^\n*//r,
	'fault:',
	'an index on a temporary table larger than temp_buffers is correct');
is( sql("CREATE TEMP TABLE fleeting (id int PRIMARY KEY, v rag_types.vector) ON COMMIT DELETE ROWS;
	CREATE INDEX ON fleeting USING rag_hnsw (v vector_l2_ops);
	BEGIN; INSERT INTO fleeting SELECT i, point(3) FROM generate_series(1, 100) i; COMMIT;
	BEGIN; INSERT INTO fleeting SELECT i, point(64) FROM generate_series(1, 100) i;
	SELECT fault('fleeting'); COMMIT"
	),
	'',
	'an index on a temporary table with ON COMMIT DELETE ROWS is correct');

sql("CREATE TABLE parted (id int, v rag_types.vector, PRIMARY KEY (id)) PARTITION BY HASH (id);
	CREATE TABLE parted_0 PARTITION OF parted FOR VALUES WITH (MODULUS 3, REMAINDER 0);
	CREATE TABLE parted_1 PARTITION OF parted FOR VALUES WITH (MODULUS 3, REMAINDER 1);
	SELECT setseed(0.9);
	CREATE INDEX parted_v ON parted USING rag_hnsw (v vector_cosine_ops);
	CREATE TABLE parted_2 PARTITION OF parted FOR VALUES WITH (MODULUS 3, REMAINDER 2);
	INSERT INTO parted SELECT i, point(64) FROM generate_series(1, 1500) i");
is(sql('SELECT ' . join ' || ', map { "fault('parted_$_')" } 0 .. 2),
	'', 'each partition has its index');
# a row with a bad estimate may be missed
is( sql("SELECT (SELECT count(*) FROM unnest(near)
	JOIN unnest(exact('parted', '<=>', q.v, 20)) AS e ON e = unnest) >= 18
		AND NOT EXISTS (SELECT FROM (
			SELECT p.v <=> q.v AS distance, lag(p.v <=> q.v) OVER (ORDER BY n) AS before
			FROM unnest(near) WITH ORDINALITY AS x (id, n) JOIN parted p USING (id)) d
			WHERE distance < before - 1e-6)
	FROM query q, LATERAL nearest('parted', '<=>', q.v, 20) AS near WHERE dimensions = 64"
	) =~ s/\n//gr,
	't' x 20,
	'a scan over partitions returns rows in order');
like(
	sql("SET enable_seqscan = off; SET enable_sort = off; EXPLAIN (COSTS off) SELECT id
		FROM parted ORDER BY v <=> (SELECT v FROM query LIMIT 1) LIMIT 5"
	),
	qr/Merge Append\n.*Index Scan using parted_0_v_idx.*Index Scan using parted_2_v_idx/s,
	'the scans of the indexes of all partitions are merged');

# -- dump and restore
# ----------------------------------------

my $dump = temp_folder() . '/dump';
for my $format ('plain', 'custom')
{
	sql("CREATE DATABASE $format");
	command_ok(
		[ 'pg_dump', '--format', $format, '--file', $dump, '--dbname', $node->connstr('postgres') ],
		"pg_dump succeeds: $format");
	command_ok(
		$format eq 'plain'
		? [
			'psql', '--no-psqlrc', '--quiet', '--set',
			'ON_ERROR_STOP=1', '--output', '/dev/null', '--dbname',
			$node->connstr($format), '--file', $dump
		  ]
		: [ 'pg_restore', '--exit-on-error', '--dbname', $node->connstr($format), $dump ],
		"the restore succeeds: $format");
	is( $node->safe_psql(
			$format,
			"SELECT fault('equal') || fault('d_16000_l2') || fault('unlogged') || "
			  . "fault('parted_1') || unindexed('parted_1')"),
		'',
		"restored indexes are correct: $format");
	is($node->safe_psql($format, "SELECT reloptions FROM pg_class WHERE relname = 'large_v'"),
		'{ef_construction=40}', "restored indexes keep their options: $format");
}

$node->stop;
done_testing();
