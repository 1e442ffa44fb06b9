# Unusual tables and indexes: builds in little memory, unlogged and temporary tables, partitions,
# partial and expression indexes, dump and restore.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;
use RagBm25;

my $node = bm25_node('tables');

sub sql { return $node->safe_psql('postgres', @_) }

# -- builds
# ----------------------------------------

sql("CREATE TABLE large (id int PRIMARY KEY, body text); SELECT setseed(0.5);
	INSERT INTO large SELECT i, sentence(50) FROM generate_series(1, 12000) i");
sql("SET maintenance_work_mem = '1MB';
	CREATE INDEX large_body ON large USING rag_bm25 (body) WITH (text_config = 'simple', k1 = 2)");
index_is_correct($node, 'large', 'an index built with little maintenance_work_mem is correct');
cmp_ok(sql("SELECT segments FROM rag_bm25_info('large_body')"),
	'>', 1, 'it has several segments');
sql("SELECT rag_bm25_merge('large_body')");
index_is_correct($node, 'large', 'the merged index is correct');
sql("SET maintenance_work_mem = '64MB'; REINDEX INDEX large_body");
is(sql("SELECT segments, k1 FROM rag_bm25_info('large_body')"),
	'1|2', 'with enough memory it is built as one segment');
sql('REINDEX INDEX CONCURRENTLY large_body');
index_is_correct($node, 'large', 'REINDEX CONCURRENTLY makes a correct index');

# a filter that only the last of all matching rows passes
is( sql("SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off;
	WITH ranked AS MATERIALIZED (SELECT id FROM large ORDER BY body <@> 'w1 w2 w3'),
	last AS (SELECT id FROM ranked OFFSET (SELECT count(*) - 1 FROM ranked))
	SELECT count(*) FROM (SELECT id FROM large WHERE id + 0 = (SELECT id FROM last)
		ORDER BY body <@> 'w1 w2 w3' LIMIT 1) s"),
	'1',
	'a filter that only the last of all matching rows passes');

# -- tables
# ----------------------------------------

sql("CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY, body text); SELECT setseed(0.6);
	INSERT INTO unlogged SELECT i, sentence(40) FROM generate_series(1, 1000) i;
	CREATE INDEX unlogged_body ON unlogged USING rag_bm25 (body) WITH (text_config = 'simple');
	INSERT INTO unlogged SELECT i, sentence(40) FROM generate_series(1001, 2500) i");
index_is_correct($node, 'unlogged', 'an unlogged index is correct');
$node->restart;
index_is_correct($node, 'unlogged', 'an unlogged index keeps its rows after a clean shutdown');
crash($node);
is(sql("SELECT count(*) FROM unlogged"), '0', 'a crash empties an unlogged table');
is(sql("SELECT count(*) FROM rag_check_index('unlogged_body')"),
	'0', 'an emptied unlogged index is correct');
sql('SELECT setseed(0.7);
	INSERT INTO unlogged SELECT i, sentence(40) FROM generate_series(1, 1500) i');
index_is_correct($node, 'unlogged', 'rows can be inserted into an emptied unlogged index');
sql('ALTER TABLE unlogged SET LOGGED');
crash($node);
index_is_correct($node, 'unlogged', 'an index that became logged keeps its rows after a crash');

is( sql("CREATE TEMP TABLE temporary (id int PRIMARY KEY, body text)
	ON COMMIT PRESERVE ROWS; SET temp_buffers = '800kB';
	SELECT setseed(0.8);
	INSERT INTO temporary SELECT i, sentence(60) FROM generate_series(1, 1500) i;
	CREATE INDEX ON temporary USING rag_bm25 (body) WITH (text_config = 'simple');
	INSERT INTO temporary SELECT i, sentence(60) FROM generate_series(1501, 3500) i;
	DELETE FROM temporary WHERE id % 3 = 0;
	VACUUM temporary; INSERT INTO temporary SELECT 10000 + i, sentence(60)
	FROM generate_series(1, 100) i;
	SELECT 'fault:' || fault('temporary') || unindexed('temporary')") =~ s/^\n*//r,
	'fault:',
	'an index on a temporary table larger than temp_buffers is correct');

sql("CREATE TABLE parted (id int, body text, PRIMARY KEY (id)) PARTITION BY HASH (id);
	CREATE TABLE parted_0 PARTITION OF parted FOR VALUES WITH (MODULUS 3, REMAINDER 0);
	CREATE TABLE parted_1 PARTITION OF parted FOR VALUES WITH (MODULUS 3, REMAINDER 1);
	SELECT setseed(0.9);
	CREATE INDEX parted_body ON parted USING rag_bm25 (body) WITH (text_config = 'simple');
	CREATE TABLE parted_2 PARTITION OF parted FOR VALUES WITH (MODULUS 3, REMAINDER 2);
	INSERT INTO parted SELECT i, sentence(30) FROM generate_series(1, 1500) i;
	CREATE TABLE whole AS TABLE parted; ALTER TABLE whole ADD PRIMARY KEY (id);
	CREATE INDEX whole_body ON whole USING rag_bm25 (body) WITH (text_config = 'simple')");
is(sql('SELECT ' . join ' || ', map { "fault('parted_$_')" } 0 .. 2),
	'', 'the index of each partition is correct');
is( sql("SELECT count(*) FROM search WHERE (answer('parted', query, true)).scores
	IS DISTINCT FROM (answer('whole', query, true)).scores"),
	'0',
	'a partitioned table has the same scores as a table of the same rows');
like(
	sql("SET enable_seqscan = off; SET enable_sort = off; EXPLAIN (COSTS off) SELECT id
		FROM parted ORDER BY body <@> 'w1 w2' LIMIT 5"),
	qr/Merge Append\n.*Index Scan using parted_0_body_idx.*Index Scan using parted_2_body_idx/s,
	'partitions are merged in the order of their scores');

sql("CREATE TABLE posts (id int PRIMARY KEY, title text, body text, is_draft boolean);
	SELECT setseed(0.1); INSERT INTO posts SELECT i, sentence(3), sentence(30), i % 3 = 0
	FROM generate_series(1, 600) i;
	CREATE INDEX posts_published ON posts USING rag_bm25 (body) WITH (text_config = 'simple')
	WHERE NOT is_draft;
	CREATE INDEX posts_all ON posts USING rag_bm25 ((title || ' ' || title || ' ' || body))
	WITH (text_config = 'simple')");
is( sql("SET enable_seqscan = off; SET enable_sort = off; SELECT count(*), bool_or(is_draft)
	FROM (SELECT * FROM posts WHERE NOT is_draft ORDER BY body <@> 'w1') s"),
	sql("SELECT count(*), false FROM posts
		WHERE NOT is_draft AND to_tsvector('simple', body) @@ 'w1'"),
	'a partial index is used where its condition holds');
like(
	sql("SET enable_seqscan = off; EXPLAIN (COSTS off) SELECT id FROM posts
		ORDER BY (title || ' ' || title || ' ' || body) <@> 'w1' LIMIT 5"),
	qr/Index Scan using posts_all/,
	'an index on an expression is used');

# -- dump and restore
# ----------------------------------------

my $dump = temp_folder() . '/dump';
create_unusual_texts($node);
sql('CREATE TEXT SEARCH CONFIGURATION public.mine (COPY = english);
	CREATE TABLE own (id int PRIMARY KEY, body text);
	INSERT INTO own VALUES (1, $$words of my own$$);
	CREATE INDEX own_body ON own USING rag_bm25 (body) WITH (text_config = $$public.mine$$)');
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
			"SELECT fault('texts') || fault('parted_1') || fault('own') || unindexed('parted_1')"),
		'',
		"restored indexes are correct: $format");
	is($node->safe_psql($format, "SELECT reloptions FROM pg_class WHERE relname = 'large_body'"),
		'{text_config=simple,k1=2}', "restored indexes keep their options: $format");
}

$node->stop;
done_testing();
