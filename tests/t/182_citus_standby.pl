# A worker that is lost is replaced by its standby: what docs/guide/scale-out.md has instead of
# copies of shards.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCitus;
use RagCluster;

if (my $why = citus_is_missing())
{
	plan skip_all => $why;
}

my ($node, @workers) = citus_nodes('kept', 2);
my $worker = $workers[0];
sub rows { return $node->safe_psql('postgres', $_[0]) }

rows(q{SELECT rag_create_collection('kb'); SELECT rag_distribute();
	SELECT count(*) FROM generate_series(1, 40) i, LATERAL rag_add_document(
		'Report ' || i || ' tells of tides.', 'report ' || i, collection => 'kb')});
my $search = q{SELECT m, rank, uri, round(score::numeric, 9)
	FROM unnest(ARRAY['vector', 'keyword', 'hybrid']) m,
		LATERAL rag_search('report 17', 'kb', top_k => 1, mode => m) ORDER BY m};
my $found = rows($search);

$worker->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('kept_standby');
$standby->init_from_backup($worker, 'base', has_streaming => 1);
$standby->start;
rows(q{SELECT rag_add_document('Whales sing.', 'whale ' || i, collection => 'kb')
	FROM generate_series(1, 6) i});
$worker->wait_for_catchup($standby);

$worker->stop('immediate');
isnt(run_sql($node, $search)->{rc}, 0, 'a search that needs the worker fails');
$standby->promote;
my ($from, $to) = ($worker->port, $standby->port);
rows("SELECT citus_update_node(nodeid, '127.0.0.1', $to) FROM pg_dist_node WHERE nodeport = $from");
is(rows($search), $found, 'its standby answers in its place');
is(rows(q{SELECT count(*), count(problem) FROM rag_distribution() WHERE NOT is_coordinator}),
	'2|0', 'and is a node');
is(rows(q{SELECT count(*) FROM rag.chunks WHERE uri LIKE 'whale%'}), '6', 'nothing is lost');
is(rows('SELECT count(*) FROM rag_check_shards()'), '0', 'its indexes are whole');
is(rows(q{SELECT count(*) FROM generate_series(1, 6) i, LATERAL rag_add_document(
		'Reefs grow.', 'reef ' || i, collection => 'kb') a WHERE a.success}),
	'6', 'documents are added');

done_testing();
