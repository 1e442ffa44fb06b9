# Keyword searches that are restricted to the rows that another index finds return the same rows as
# other plans: while the table is changed, vacuumed and rebuilt, on a standby and after a crash.
# Rows that change while a search waits for them are checked again. Searches can be cancelled, and
# fail without enough memory; other sessions are undisturbed.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use Test::More;
use RagCluster;
use RagBm25;
use RagLoad;
use RagMemory;
use RagSearches;

my $node = bm25_node('filtered',
	conf => "wal_level = replica\nmax_wal_senders = 5\nhot_standby = on\n"
	  . "max_standby_streaming_delay = -1\ndeadlock_timeout = 100ms\n");

# With unknown bounds the planner expects few rows to pass the filter, so that the plan is used for
# any bounds.
$node->safe_psql(
	'postgres', q{
	CREATE TABLE t (id int PRIMARY KEY, kind int, body text);
	CREATE SEQUENCE t_id;
	SELECT setseed(0.2);
	INSERT INTO t SELECT nextval('t_id'), i * 7919 % 1000, sentence(40)
		FROM generate_series(1, 6000) i;
	CREATE INDEX t_kind ON t (kind);
	CREATE INDEX t_body ON t USING rag_bm25 (body) WITH (text_config = 'simple');
	VACUUM ANALYZE t;
	CREATE FUNCTION filtered(words text, low int, high int) RETURNS int[] STABLE LANGUAGE plpgsql
		SET plan_cache_mode = force_generic_plan SET work_mem = '64kB' AS $$
	BEGIN RETURN array(SELECT id FROM t WHERE kind BETWEEN low AND high ORDER BY body <@> words);
	END $$;
	CREATE FUNCTION expected(words text, low int, high int) RETURNS int[] STABLE LANGUAGE plpgsql
		SET enable_indexscan = off AS $$
	BEGIN RETURN array(SELECT id FROM t WHERE kind BETWEEN low AND high AND body @@@ words
		OFFSET 0); END $$;
	-- what is wrong with the rows of the queries for some bounds, or ''
	CREATE FUNCTION wrong() RETURNS text STABLE LANGUAGE sql AS $$
		SELECT coalesce(string_agg(format('"%s" up to %s: %s instead of %s', query, high, f, e),
			' '), '')
		FROM search, unnest(ARRAY[0, 10, 300, 1000]) high, filtered(query, 0, high) f,
			expected(query, 0, high) e
		WHERE ARRAY(SELECT unnest(f) ORDER BY 1) <> ARRAY(SELECT unnest(e) ORDER BY 1) $$;
	CREATE FUNCTION plan(statement text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE line text; plan text := '';
	BEGIN FOR line IN EXECUTE 'EXPLAIN ' || statement LOOP plan := plan || line; END LOOP;
	RETURN plan; END $$});
my $best = "SELECT id, kind FROM t WHERE kind BETWEEN 0 AND 10 ORDER BY body <@> 'w1 w2 w3'";

sub sql { return $node->safe_psql('postgres', @_) }

sub uses_plan
{
	my ($statement, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return like(sql("SELECT plan(\$q\$$statement\$q\$)"), qr/RagFilteredScan/, $name);
}

uses_plan("$best LIMIT 1 FOR UPDATE", 'a search with a narrow filter uses the plan');
my $prepared = 'SELECT id FROM t WHERE kind BETWEEN $1 AND $2 ORDER BY body <@> $3';
like(
	sql("SET plan_cache_mode = force_generic_plan;
		PREPARE p(int, int, text) AS $prepared; EXPLAIN EXECUTE p(1, 2, 'w1')"),
	qr/RagFilteredScan/,
	'a search with unknown bounds uses the plan');
is(sql('SELECT wrong()'), '', 'the plan returns the rows that match');

# -- rows that change while a search waits for them
# ----------------------------------------

for my $case (
	[ 'leaves the filter', 'SET kind = 500', 1 ],
	[ 'stays in the filter', 'SET kind = 9', 0 ],
	[ 'is deleted', undef, 1 ])
{
	my ($what, $change, $skipped) = @$case;
	my ($first, $second) = map { (split /\|/)[0] } split /\n/, sql("$best LIMIT 2");
	my $result = search_after_change($node, 't', $first, $change, "$best LIMIT 1 FOR UPDATE");
	my $expected = $skipped ? qr/^$second\|\d+$/ : qr/^$first\|9$/;
	like($result->{out}, $expected, "a search waits for a row that then $what")
	  or diag($result->{err});
}
is(sql('SELECT wrong()'), '', 'the plan returns the rows that match after these changes');

# -- load
# ----------------------------------------

my $some = 'SELECT id FROM t OFFSET floor(random() * 5000) LIMIT 2 FOR UPDATE SKIP LOCKED';
my $insert = "INSERT INTO t SELECT nextval('t_id'), random() * 1000, sentence(40)";
run_load(
	$node, 10,
	{
		insert => [ 6, "$insert;" ],
		delete => [ 3, "DELETE FROM t WHERE id IN ($some);" ],
		update => [ 3, "UPDATE t SET kind = random() * 1000 WHERE id IN ($some);" ],
		update_text => [ 2, "UPDATE t SET body = sentence(40) WHERE id IN ($some);" ],
		search => [ 2, q{DO 'BEGIN ASSERT wrong() = $$$$, wrong(); END';} ]
	},
	'VACUUM t',
	"SELECT rag_bm25_merge('t_body')",
	'REINDEX INDEX CONCURRENTLY t_body',
	'VACUUM t',
	'REINDEX INDEX CONCURRENTLY t_kind',
	'DELETE FROM t WHERE id % 10 < 3; VACUUM t');
is(sql('SELECT wrong()'), '', 'the plan returns the rows that match after the load');

# -- cancelled, and without memory
# ----------------------------------------

sql("INSERT INTO t SELECT nextval('t_id'), i % 1000, sentence(20)
	FROM generate_series(1, 20000) i");
sql('VACUUM ANALYZE t');
my $witness = witness($node);
my $long = "SELECT sum(cardinality(filtered('w1 w2 w' || g, 0, 1000)))
	FROM generate_series(1, 100000) g";
search_is_cancelled($node, $long);
error_like(
	run_sql($node,
		"SELECT id FROM t WHERE kind BETWEEN 0 AND 10 AND 1 / (kind - kind) > 0
			ORDER BY body <@> 'w1' LIMIT 1"),
	'22012', 'division by zero', undef, 'a condition can fail');

my $failed = with_more_and_more(
	$node,
	"SET plan_cache_mode = force_generic_plan; SET work_mem = '1GB';
		PREPARE p(int, int, text) AS SELECT count(*) FROM ($prepared OFFSET 0) s;
		EXECUTE p(0, 1000, 'w1 w2 w3')",
	100_000, 'a search', first => 200_000, tries => 60, may_end => 1);
cmp_ok($failed, '<', 60, "$failed searches had not enough memory, and the next one had");
same_cluster($witness, 'cancelled searches, and those without memory');
is(sql('SELECT wrong()'), '', 'the plan returns the rows that match afterwards');

# -- standby and crash
# ----------------------------------------

my $standby = standby_of($node);
for my $step ("$insert FROM generate_series(1, 1500)", 'DELETE FROM t WHERE id % 3 = 0',
	'VACUUM t', "SELECT rag_bm25_merge('t_body')")
{
	sql($step);
	catch_up($node, $standby);
	is($standby->safe_psql('postgres', 'SELECT wrong()'), '', "on a standby after $step");
	my $answers = "SELECT filtered(query, 0, 300) FROM search ORDER BY id";
	is($standby->safe_psql('postgres', $answers),
		sql($answers), "the standby returns the rows in the same order after $step");
}
$standby->stop;

sql("$insert FROM generate_series(1, 200)");
crash($node);
is(sql('SELECT wrong()'), '', 'the plan returns the rows that match after a crash');

$node->stop;
done_testing();
