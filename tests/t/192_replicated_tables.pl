# A table of a server that is not ours, kept current by logical replication: the rows that a
# subscription writes are noted by triggers, and runs follow.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagTest ();

# the database that may not be touched: no extension, and a user that may only replicate
my $theirs = PostgreSQL::Test::Cluster->new('theirs');
$theirs->init(allows_streaming => 'logical', extra => [ '--encoding=UTF8', '--no-locale' ]);
$theirs->append_conf('postgresql.conf', 'statement_timeout = 170s');
$theirs->start;
$theirs->safe_psql(
	'postgres', q{
	CREATE TABLE articles (id int PRIMARY KEY, title text NOT NULL, body text, views int DEFAULT 0);
	INSERT INTO articles SELECT i, 'Article ' || i, 'Number ' || i || ' is about tides.'
	FROM generate_series(1, 20) AS i;
	CREATE ROLE copier LOGIN REPLICATION;
	GRANT SELECT ON articles TO copier;
	CREATE PUBLICATION articles FOR TABLE articles});

my $node = rag_node('replicated_tables', scheduler => 1, conf => "rag.trigger_delay = 100ms");
my $there = sprintf 'host=%s port=%d dbname=postgres user=copier', $theirs->host, $theirs->port;
$node->safe_psql(
	'postgres', qq{
	CREATE TABLE articles (id int PRIMARY KEY, title text NOT NULL, body text, views int DEFAULT 0);
	SELECT rag_create_source('articles', 'table', '{"relation": "articles", "sync": "trigger"}');
	CREATE SUBSCRIPTION articles CONNECTION '$there' PUBLICATION articles});

my $active = q{SELECT count(*) FROM rag.runs WHERE phase IN ('Pending', 'Running')};

sub current
{
	my ($what) = @_;
	my $expected = $theirs->safe_psql('postgres',
		q{SELECT string_agg(concat_ws(' ', id, title, body), '|' ORDER BY id) FROM articles
			WHERE body ~ '\S'});
	await(
		"the collection follows $what",
		sub {
			ask($node, $active) eq '0' and ask($node, q{SELECT coalesce(string_agg(
				concat_ws(' ', split_part(uri, '/', 4), title, content), '|'
				ORDER BY split_part(uri, '/', 4)::int), '')
				FROM rag.documents WHERE source = 'articles' AND status = 'active'}) eq $expected;
		});
	return;
}

my $triggers = q{SELECT string_agg(tgname || ' ' || tgenabled::text, ', ' ORDER BY tgname)
	FROM pg_trigger WHERE tgrelid = 'articles'::regclass};
is($node->safe_psql('postgres', $triggers),
	'rag_d_articles O, rag_i_articles O, rag_r_articles R, rag_t_articles A, rag_u_articles O',
	'one trigger is for what logical replication applies');
current('the first copy');
my $runs = sub { ask($node, q{SELECT coalesce(max(run_id), 0) FROM rag.runs}) };
my $did = q{SELECT sum(documents_added), sum(documents_updated), sum(documents_deleted),
	sum(documents_unchanged) FROM rag.runs WHERE phase = 'Completed' AND run_id > };
# the copy has ended, and what it noted was handled
await(
	'the queue is empty',
	sub {
		ask($node, 'SELECT count(*) FROM rag_internal.table_change') eq '0'
		  and ask($node, $active) eq '0'
		  and ask($node, "SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> 'r'") eq '0';
	});

my $before = $runs->();
$theirs->safe_psql('postgres', "INSERT INTO articles VALUES (21, 'New', 'A new article.')");
current('an INSERT');
is(ask($node, "$did $before"), '1|0|0|0', '... by a run that reads its row alone');
$before = $runs->();
$theirs->safe_psql('postgres', "UPDATE articles SET body = 'Changed.' WHERE id IN (2, 3)");
current('an UPDATE');
is(ask($node, "$did $before"), '0|2|0|0', '... by a run that reads its rows alone');
$theirs->safe_psql('postgres', 'UPDATE articles SET id = 30 WHERE id = 4');
current('an UPDATE of a key');
$theirs->safe_psql('postgres', 'DELETE FROM articles WHERE id > 15');
current('a DELETE');
$theirs->safe_psql('postgres', q{BEGIN; INSERT INTO articles VALUES (40, 'Kept', 'Kept.');
	SAVEPOINT s; INSERT INTO articles VALUES (41, 'Lost', 'Lost.'); ROLLBACK TO s; COMMIT});
current('a transaction with a part that was rolled back');

# columns that no document has
my $position = sub {
	my $lsn = $theirs->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
	await('the changes are here', sub { ask($node,
		"SELECT latest_end_lsn >= '$lsn' FROM pg_stat_subscription WHERE relid IS NULL") eq 't' });
};
$before = $runs->();
$theirs->safe_psql('postgres', 'UPDATE articles SET views = views + 1');
$position->();
is(ask($node, 'SELECT count(*) FROM rag_internal.table_change'), '0',
	'a change of other columns is not noted');
is($runs->(), $before, '... and begins no run');

$theirs->safe_psql('postgres', 'TRUNCATE articles');
current('a TRUNCATE');
$theirs->safe_psql('postgres', q{INSERT INTO articles SELECT i, 'Row ' || i,
	CASE WHEN i <= 3 THEN 'Text ' || i END FROM generate_series(1, 12000) AS i});
current('a large transaction');

# -- what is written here is noted, too
$node->safe_psql('postgres', "INSERT INTO articles VALUES (99999, 'Ours', 'Written here.')");
await('a row of this server is indexed',
	sub { ask($node, "SELECT count(*) FROM rag.documents WHERE title = 'Ours'") eq '1' });
$node->safe_psql('postgres', "SET session_replication_role = replica;
	UPDATE articles SET title = 'Still ours' WHERE id = 99999");
await('... as one that a session writes as a replica',
	sub { ask($node, "SELECT count(*) FROM rag.documents WHERE title = 'Still ours'") eq '1' });
$node->safe_psql('postgres', 'DELETE FROM articles WHERE id = 99999');

# -- lag, and a publisher that is away
my $age = q{SELECT value < 60 FROM rag.metrics WHERE name = 'rag_source_replication_age_seconds'
	AND labels ->> 'source' = 'articles'};
is(ask($node, $age), 't', 'a metric tells when the publisher was last heard of');
$theirs->stop;
is(ask($node, "SELECT count(*) > 0 FROM rag_search('text')"), 't',
	'searches go on while the publisher is away');
$theirs->start;
$theirs->safe_psql('postgres', "UPDATE articles SET body = 'After the restart.' WHERE id = 1");
current('a restart of the publisher');
$node->safe_psql('postgres', 'DROP SUBSCRIPTION articles');
is(ask($node, $age), '', 'without a subscription there is no such metric');
is(ask($node, q{SELECT count(*) FROM rag_status() WHERE severity <> 'notice'}), '0',
	'no problem is left');
done_testing();
