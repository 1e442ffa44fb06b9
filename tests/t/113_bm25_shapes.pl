# Unusual texts: empty, huge and non-Latin documents, every text search configuration, dictionaries
# of other templates, and all rows updated or deleted.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagBm25;

my $node = bm25_node('shapes');

sub sql { return $node->safe_psql('postgres', @_) }

# -- texts
# ----------------------------------------

create_unusual_texts($node);
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
	INSERT INTO search VALUES (30, 'supernovae stars'), (31, 'booking tickets'), (32, 'sn'),
		(33, 'footballklubber'), (34, 'klubber'), (35, 'booked'), (36, 'postgres'), (37, 'Hotel');
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

$node->stop;
done_testing();
