# Unusual texts and tables: empty, huge and non-Latin documents, every text search configuration,
# unlogged and temporary tables, partitions, partial and expression indexes, dump and restore, all
# rows updated or deleted.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;
use RagBm25;

my $node = bm25_node('shapes');

sub sql { return $node->safe_psql('postgres', @_) }

# -- texts
# ----------------------------------------

sql("CREATE TABLE texts (id int PRIMARY KEY, body text);
	INSERT INTO texts VALUES (1, ''), (2, NULL), (3, '   '), (4, 'the of and'), (5, '...!?'),
		(6, 'Ärger und Öl'), (7, 'Привет, мир'), (8, '数据库 检索'), (9, E'tab\\tnew\\nline'),
		(10, repeat('word ', 70000)), (11, repeat('x', 3000) || ' long'),
		(12, '😀 emoji'), (13, 'user\@example.org https://example.org/a/b?c=d'),
		(14, 'foo-bar v1.2.3 -17 3.14e5');
	INSERT INTO texts SELECT 100, string_agg('w' || i, ' ') FROM generate_series(1, 200000) i;
	CREATE INDEX texts_body ON texts USING rag_bm25 (body) WITH (text_config = 'english');
	INSERT INTO texts SELECT id + 1000, body FROM texts");
index_is_correct($node, 'texts', 'an index of unusual texts is correct');
for my $case (
	[ 'Öl', '1006|6' ], [ 'мир', '1007|7' ], [ '检索', '1008|8' ], [ 'line', '1009|9' ],
	[ 'word', '10|1010' ], [ 'emoji', '1012|12' ], [ 'example.org', '1013|13' ],
	[ 'long', '1011|11' ],
	[ 'w199999', '100|1100' ], [ 'the of and', '' ], [ '', '' ])
{
	my ($query, $ids) = @$case;
	my $expected = join '|', sort split /\|/, $ids;
	is(sql("SET enable_seqscan = off; SELECT string_agg(id::text, '|' ORDER BY id::text)
		FROM (SELECT id FROM texts ORDER BY body <@> '$query') s"),
		$expected, "rows with '$query' are found");
}
sql('DELETE FROM texts WHERE id > 1000');
sql('VACUUM texts');
index_is_correct($node, 'texts', 'an index of unusual texts is correct after a vacuum');

# every configuration of PostgreSQL
sql("CREATE TABLE languages (id int PRIMARY KEY, body text); SELECT setseed(0.2);
	INSERT INTO languages SELECT i, sentence(20) || ' Running Häuser données книги παιδιά'
	FROM generate_series(1, 60) i");
my @configurations = split /\n/, sql(
	"SELECT cfgname FROM pg_ts_config WHERE cfgnamespace = 'pg_catalog'::regnamespace ORDER BY 1");
cmp_ok(scalar @configurations, '>', 10, 'the server has text search configurations');
for my $configuration (@configurations)
{
	sql("CREATE INDEX languages_body ON languages USING rag_bm25 (body)
		WITH (text_config = '$configuration');
		INSERT INTO languages SELECT max(id) + 1, sentence(20) FROM languages");
	index_is_correct($node, 'languages', "an index with configuration $configuration is correct");
	sql('DROP INDEX languages_body');
}

# dictionaries of other templates: of several words, of compound words, and filters
sql("CREATE TEXT SEARCH DICTIONARY phrases (TEMPLATE = thesaurus, DictFile = thesaurus_sample,
		Dictionary = english_stem);
	CREATE TEXT SEARCH DICTIONARY compounds (TEMPLATE = ispell, DictFile = ispell_sample,
		AffFile = ispell_sample);
	CREATE TEXT SEARCH DICTIONARY synonyms (TEMPLATE = synonym, Synonyms = synonym_sample);
	INSERT INTO search VALUES (20, 'supernovae stars'), (21, 'booking tickets'), (22, 'sn'),
		(23, 'footballklubber'), (24, 'klubber'), (25, 'booked'), (26, 'postgres'), (27, 'Hotel');
	CREATE TABLE phrase (id int PRIMARY KEY, body text);
	INSERT INTO phrase SELECT i, sentence(5) || CASE i % 6 WHEN 0 THEN ' Supernovae stars shine'
		WHEN 1 THEN ' booking of tickets' WHEN 2 THEN ' Footballklubber booking sky'
		WHEN 3 THEN ' Postgres postgresql indices' WHEN 4 THEN ' Hôtel supernovae'
		ELSE ' tickets for one two' END FROM generate_series(1, 60) i");
my @dictionaries = qw(phrases compounds synonyms);
push @dictionaries, 'unaccent'
  if sql("SELECT count(*) FROM pg_available_extensions WHERE name = 'unaccent'");
for my $dictionary (@dictionaries)
{
	sql('CREATE EXTENSION unaccent') if $dictionary eq 'unaccent';
	sql("CREATE TEXT SEARCH CONFIGURATION of_$dictionary (COPY = english);
		ALTER TEXT SEARCH CONFIGURATION of_$dictionary ALTER MAPPING FOR asciiword, word
			WITH $dictionary, english_stem;
		CREATE INDEX phrase_body ON phrase USING rag_bm25 (body)
			WITH (text_config = 'public.of_$dictionary')");
	index_is_correct($node, 'phrase', "an index with dictionary $dictionary is correct");
	my $counts = "SELECT documents, average_length FROM rag_bm25_info('phrase_body')";
	my $built = sql($counts);
	sql('CREATE TEMP TABLE phrases_before AS TABLE phrase; TRUNCATE phrase;
		INSERT INTO phrase TABLE phrases_before');
	is(sql($counts), $built, "rows that are inserted have the same words: $dictionary");
	sql('DROP INDEX phrase_body');
}

# -- changes of everything
# ----------------------------------------

sql("CREATE TABLE changed (id int PRIMARY KEY, kind int, body text); SELECT setseed(0.3);
	INSERT INTO changed SELECT i, i % 10, sentence(30) FROM generate_series(1, 4000) i;
	CREATE INDEX changed_body ON changed USING rag_bm25 (body) WITH (text_config = 'simple')");
sql('CREATE INDEX ON changed (kind); UPDATE changed SET kind = kind + 1');
index_is_correct($node, 'changed', 'the index is correct after an update of all rows');
sql('VACUUM changed');
index_is_correct($node, 'changed', 'the index is correct after an update of all rows and vacuum');
sql('DELETE FROM changed WHERE id BETWEEN 500 AND 3500');
index_is_correct($node, 'changed', 'the index is correct after most rows were deleted');
sql('VACUUM changed');
is(sql("SELECT documents, deleted FROM rag_bm25_info('changed_body')"),
	'999|0', 'vacuum rewrites segments of deleted rows');
# rows take the places of those that were deleted
sql('SELECT setseed(0.4); INSERT INTO changed SELECT 10000 + i, 1, sentence(30)
	FROM generate_series(1, 3000) i');
index_is_correct($node, 'changed', 'the index is correct after places of rows are used again');
sql('DELETE FROM changed');
sql('VACUUM changed');
is(sql("SELECT documents, segments, pending_documents FROM rag_bm25_info('changed_body')"),
	'0|0|0', 'an index without rows has no segments');
sql('INSERT INTO changed SELECT i, 1, sentence(30) FROM generate_series(1, 100) i');
sql('VACUUM FULL changed');
sql('TRUNCATE changed');
sql('INSERT INTO changed SELECT i, 1, sentence(30) FROM generate_series(1, 200) i');
index_is_correct($node, 'changed', 'the index is correct after VACUUM FULL and TRUNCATE');
sql('BEGIN; TRUNCATE changed; INSERT INTO changed SELECT i, 1, sentence(30)
	FROM generate_series(1, 50) i; ROLLBACK');
index_is_correct($node, 'changed', 'the index is correct after a TRUNCATE that was rolled back');

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
is(sql("SELECT count(*) FROM rag_index_check('unlogged_body')"),
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
