# Functions for the cluster tests of rag_bm25: random texts, and checks of an index.
#
# The SQL that every node gets:
#   sentence(words)     a random text with some frequent and many rare words; setseed() makes it
#                       reproducible
#   search              a table of queries, of 1 to 12 words, and of clauses
#   answer(table, ...)  the ids and scores of all rows that match, as the index returns them
#   fault(table)        what is wrong with the only rag_bm25 index of a table, or ''.
#                       The table has the columns id (unique) and body.
package RagBm25;

use strict;
use warnings;

use Exporter 'import';
use RagCluster;
use Test::More;

our @EXPORT = qw(bm25_node index_is_correct create_unusual_texts);

my $tools = <<'SQL';
CREATE FUNCTION word() RETURNS text LANGUAGE sql
    AS $$ SELECT 'w' || floor(power(3000, random()))::int $$;
CREATE FUNCTION sentence(words int) RETURNS text LANGUAGE sql
    AS $$ SELECT string_agg(word(), ' ') FROM generate_series(1, words) $$;
CREATE TABLE search (id int PRIMARY KEY, query text);
SELECT setseed(0.1);
INSERT INTO search SELECT i, sentence(i) FROM generate_series(1, 12) i;
INSERT INTO search VALUES (13, 'w1'), (14, 'w2999 w2998'), (15, 'missing'), (16, 'w1 w1 w2'),
    (17, '"w1 w2"'), (18, '+w3 w5 -"w1 w2"~2'), (19, 'w29* -w4'), (20, 'w2999~ "w7 w1" OR "w2 w9"');

CREATE FUNCTION answer(relation regclass, query text, indexed boolean,
    OUT ids int[], OUT scores float8[]) STABLE LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM set_config('enable_seqscan', CASE WHEN indexed THEN 'off' ELSE 'on' END, true),
        set_config('enable_sort', CASE WHEN indexed THEN 'off' ELSE 'on' END, true),
        set_config('enable_indexscan', CASE WHEN indexed THEN 'on' ELSE 'off' END, true);
    IF indexed THEN
        EXECUTE format('SELECT array_agg(id), array_agg(s) FROM (
            SELECT id, body <@> $1 AS s FROM %s ORDER BY body <@> $1) q', relation)
            INTO ids, scores USING query;
    ELSE
        EXECUTE format('SELECT array_agg(id ORDER BY s, id), array_agg(s ORDER BY s) FROM (
            SELECT id, body <@> $1 AS s FROM %s WHERE body @@@ $1 OFFSET 0) q', relation)
            INTO ids, scores USING query;
    END IF;
END $$;

-- The number of rows that match, by the index alone where all transactions see the rows.
CREATE FUNCTION counted(relation regclass, query text) RETURNS bigint STABLE LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_indexscan = on
AS $$
DECLARE matching bigint;
BEGIN
    EXECUTE format('SELECT count(*) FROM %s WHERE body @@@ $1', relation) INTO matching USING query;
    RETURN matching;
END $$;

-- Whether the plan of a query like those of answer() is a scan of the index: what is wrong, or ''.
CREATE FUNCTION unindexed(relation regclass) RETURNS text LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_sort = off
AS $$
DECLARE plan json;
BEGIN
    EXECUTE format('EXPLAIN (FORMAT json) SELECT id FROM %s ORDER BY body <@> %L LIMIT 10',
        relation, 'w1 w2') INTO plan;
    RETURN CASE WHEN plan::text LIKE '%"Index Scan"%' THEN '' ELSE 'the plan is ' || plan::text END;
END $$;

-- Stable: all of it sees the table as the calling statement does, whatever others do meanwhile.
CREATE FUNCTION fault(relation regclass, with_check boolean DEFAULT true,
with_scores boolean DEFAULT true) RETURNS text
    STABLE LANGUAGE plpgsql
AS $$
DECLARE
    index regclass;
    problems text;
    q text;
    found record;
    expected record;
BEGIN
    SELECT i.indexrelid INTO STRICT index FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
        JOIN pg_am a ON a.oid = c.relam
        WHERE i.indrelid = relation AND a.amname = 'rag_bm25' AND i.indisvalid LIMIT 1;
    IF with_check THEN
        SELECT string_agg(c::text, ' ') INTO problems FROM rag_check_index(index) c;
        IF problems IS NOT NULL THEN
            RETURN 'rag_check_index: ' || problems;
        END IF;
    END IF;
    FOR q IN SELECT query FROM search LOOP
        found := answer(relation, q, true);
        expected := answer(relation, q, false);
        IF with_scores AND found.scores IS DISTINCT FROM expected.scores THEN
            RETURN format('"%s": scores %s instead of %s', q, found.scores, expected.scores);
        END IF;
        IF ARRAY(SELECT unnest(found.ids) ORDER BY 1)
            IS DISTINCT FROM ARRAY(SELECT unnest(expected.ids) ORDER BY 1) THEN
            RETURN format('"%s": rows %s instead of %s', q, found.ids, expected.ids);
        END IF;
        IF counted(relation, q) <> coalesce(cardinality(expected.ids), 0) THEN
            RETURN format('"%s": %s rows counted instead of %s', q, counted(relation, q),
                cardinality(expected.ids));
        END IF;
    END LOOP;
    RETURN '';
END $$;
SQL

# Returns a running node with the extension and the tools. Without preload, because no test here
# needs rag-engine. Option: conf.
sub bm25_node
{
	my ($name, %option) = @_;
	my $conf = "autovacuum = off\njit = off\n" . ($option{conf} // '');
	my $node = rag_node($name, preload => 0, conf => $conf);
	$node->safe_psql('postgres', $tools);
	return $node;
}

# Checks that rag_check_index finds nothing, and that scans to their end return all rows that match,
# once, in the order of their scores, and with the scores that the operator computes.
sub index_is_correct
{
	my ($node, $table, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is($node->safe_psql('postgres', "SELECT fault('$table') || unindexed('$table')"), '',
		$name);
}

# A table of empty, huge and non-Latin documents, and of other unusual ones, with an index.
sub create_unusual_texts
{
	my ($node) = @_;
	$node->safe_psql('postgres', "CREATE TABLE texts (id int PRIMARY KEY, body text);
		INSERT INTO texts VALUES (1, ''), (2, NULL), (3, '   '), (4, 'the of and'), (5, '...!?'),
			(6, 'Ärger und Öl'), (7, 'Привет, мир'), (8, '数据库 检索'), (9, E'tab\\tnew\\nline'),
			(10, repeat('word ', 70000)), (11, repeat('x', 3000) || ' long'),
			(12, '😀 emoji'), (13, 'user\@example.org https://example.org/a/b?c=d'),
			(14, 'foo-bar v1.2.3 -17 3.14e5');
		INSERT INTO texts SELECT 100, string_agg('w' || i, ' ') FROM generate_series(1, 200000) i;
		CREATE INDEX texts_body ON texts USING rag_bm25 (body) WITH (text_config = 'english');
		INSERT INTO texts SELECT id + 1000, body FROM texts");
	return;
}

1;
