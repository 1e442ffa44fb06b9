# Vector searches with a filter that begin with the index and end with ranked rows return each row
# that passes once: while the table is changed, vacuumed and rebuilt, on a standby and after a
# crash. Rows that change while a search waits for them are checked again. Searches can be
# cancelled, and fail without enough memory; other sessions are undisturbed.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use Test::More;
use RagCluster;
use RagHnsw;
use RagLoad;
use RagMemory;
use RagSearches;

my $node = hnsw_node('adaptive',
	conf => "wal_level = replica\nmax_wal_senders = 5\nhot_standby = on\njit = off\n"
	  . "max_standby_streaming_delay = -1\ndeadlock_timeout = 100ms\n");

# Rows of kind 10 are the farthest from the searches.
$node->safe_psql(
	'postgres', q{
	CREATE TABLE t (id int PRIMARY KEY, kind int, v rag_types.vector(3));
	CREATE SEQUENCE t_id;
	SELECT setseed(0.2);
	CREATE FUNCTION place(kind int) RETURNS rag_types.vector VOLATILE LANGUAGE sql AS
		$$ SELECT format('[%s,%s,%s]', kind + random(), random(), random())::rag_types.vector $$;
	INSERT INTO t SELECT nextval('t_id'), i % 11, place(i % 11) FROM generate_series(1, 16500) i;
	CREATE INDEX t_v ON t USING rag_hnsw (v vector_l2_ops);
	CREATE INDEX t_kind ON t (kind);
	VACUUM ANALYZE t;
	CREATE FUNCTION found(wanted int, n bigint) RETURNS TABLE (id int, kind int) STABLE
		LANGUAGE plpgsql SET enable_sort = off SET work_mem = '64kB'
		SET plan_cache_mode = force_custom_plan AS $$
	BEGIN RETURN QUERY SELECT t.id, t.kind FROM t WHERE t.kind = wanted
		ORDER BY v <-> '[0,.5,.5]' LIMIT n; END $$;
	-- what is wrong with the rows of the searches, or ''
	CREATE FUNCTION wrong() RETURNS text STABLE LANGUAGE sql AS $$
		SELECT coalesce(string_agg(format('kind %s: %s rows, %s different, %s of other kinds; %s',
			w, c, d, o, e), ' '), '')
		FROM (VALUES (0), (5), (10)) kinds (w),
			LATERAL (SELECT count(*), count(DISTINCT f.id), count(*) FILTER (WHERE kind <> w)
				FROM found(w, NULL) f) a (c, d, o),
			LATERAL (SELECT count(*) FROM t WHERE kind = w) b (e)
		WHERE (c, d, o) <> (e, e, 0) $$;
	CREATE FUNCTION ranked(statement text) RETURNS int LANGUAGE plpgsql
		SET enable_bitmapscan = off AS $$
	DECLARE line text; BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF) ' || statement LOOP
		IF line ~ 'Ranked Rows' THEN RETURN substring(line FROM '\d+'); END IF; END LOOP;
	RETURN NULL; END $$});

sub sql { return $node->safe_psql('postgres', @_) }

sub nearest
{
	my ($kind, $rest) = @_;
	return "SELECT id, kind FROM t WHERE kind = $kind ORDER BY v <-> '[0,.5,.5]' $rest";
}

sub ranked { return sql('SELECT ranked($$' . nearest(shift, 'LIMIT 5') . '$$)') }

is(ranked(0), 0, 'near rows come from the index');
cmp_ok(ranked(10), '>', 1000, 'far rows are ranked');
is(sql('SELECT wrong()'), '', 'each row that passes comes once');
my $best = nearest(10, 'LIMIT 1');

# -- rows that change while a search waits for them
# ----------------------------------------

for my $case (
	[ 'leaves the filter', 'SET kind = 11', 1 ],
	[ 'stays in the filter', 'SET id = -id', 0 ],
	[ 'is deleted', undef, 1 ])
{
	my ($what, $change, $skipped) = @$case;
	my ($first, $second) = map { (split /\|/)[0] } split /\n/, sql(nearest(10, 'LIMIT 2'));
	my $result = search_after_change($node, 't', $first, $change, "$best FOR UPDATE");
	my $expected = $skipped ? qr/^$second\|10$/ : qr/^-$first\|10$/;
	like($result->{out}, $expected, "a search waits for a row that then $what")
	  or diag($result->{err});
}
is(sql('SELECT wrong()'), '', 'each row comes once after these changes');

# -- load
# ----------------------------------------

my $some = 'SELECT id FROM t OFFSET floor(random() * 15000) LIMIT 2 FOR UPDATE SKIP LOCKED';
my $kind = '(SELECT floor(random() * 11)::int AS k) AS any_kind';
my $insert = "INSERT INTO t SELECT nextval('t_id'), k, place(k) FROM $kind";
run_load(
	$node, 10,
	{
		insert => [ 6, "$insert;" ],
		delete => [ 3, "DELETE FROM t WHERE id IN ($some);" ],
		update => [ 3, "UPDATE t SET kind = k, v = place(k) FROM $kind WHERE id IN ($some);" ],
		search => [ 2, q{DO 'BEGIN ASSERT wrong() = $$$$, wrong(); END';} ]
	},
	'VACUUM t',
	'REINDEX INDEX CONCURRENTLY t_v',
	'VACUUM t',
	'REINDEX INDEX CONCURRENTLY t_kind',
	'DELETE FROM t WHERE id % 10 < 3; VACUUM t');
is(sql('SELECT wrong()'), '', 'each row comes once after the load');

# -- cancelled, and without memory
# ----------------------------------------

my $witness = witness($node);
my $long = 'SELECT count(*) FROM generate_series(1, 100000) g, LATERAL found(10, NULL + g)';
search_is_cancelled($node, $long);
error_like(
	run_sql($node, nearest('10 AND 1 / (kind - 10) > 0', 'LIMIT 1')),
	'22012', 'division by zero', undef, 'a condition can fail');

sql("INSERT INTO t SELECT nextval('t_id'), 10, place(10) FROM generate_series(1, 100000)");
sql('VACUUM ANALYZE t');
my $failed = with_more_and_more(
	$node,
	"SET enable_sort = off; SET work_mem = '1GB';
		SELECT count(*) FROM (@{[ nearest(10, 'OFFSET 0') ]}) s",
	200_000, 'a search', first => 200_000, tries => 60, may_end => 1);
cmp_ok($failed, '<', 60, "$failed searches had not enough memory, and the next one had");
same_cluster($witness, 'cancelled searches, and those without memory');
sql('DELETE FROM t WHERE kind = 10 AND id % 10 > 0');
is(sql('SELECT wrong()'), '', 'each row comes once afterwards');

# -- standby and crash
# ----------------------------------------

my $standby = standby_of($node);
for my $step ("$insert, generate_series(1, 1500)", 'DELETE FROM t WHERE id % 3 = 0', 'VACUUM t')
{
	sql($step);
	catch_up($node, $standby);
	is($standby->safe_psql('postgres', 'SELECT wrong()'), '', "on a standby after $step");
	my $answers = 'SELECT * FROM found(10, 100)';
	is($standby->safe_psql('postgres', $answers),
		sql($answers), "the standby returns the rows in the same order after $step");
}
$standby->stop;

sql("$insert, generate_series(1, 200)");
crash($node);
is(sql('SELECT wrong()'), '', 'each row comes once after a crash');

$node->stop;
done_testing();
