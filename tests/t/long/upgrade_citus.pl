# Distributed chunks: ALTER EXTENSION rag UPDATE on the coordinator updates all nodes, and answers
# stay.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCitus;
use RagCluster;
use RagUpgrade;

if (my $why = citus_is_missing())
{
	plan skip_all => $why;
}

my ($node, @workers) = citus_nodes('citus_upgrade', 2, $releases[-1]);
sub sql { return $node->safe_psql('postgres', @_) }

sub versions
{
	my $query = q{SELECT extversion FROM pg_extension WHERE extname = 'rag'};
	return join ' ', map { $_->safe_psql('postgres', $query) } $node, @workers;
}

my $search = q{SELECT uri, round(score::numeric, 6) FROM rag_search('bread on day 7', top_k => 3);
	SELECT uri, round(score::numeric, 6) FROM rag_search('word12', mode => 'keyword', top_k => 1)};

is(versions(), join(' ', ($releases[-1]) x 3), 'all nodes have the released version');
sql(q{SELECT rag_add_document(format('Bread of word%s is baked on day %s.', i, i), 'day:' || i)
	FROM generate_series(1, 60) i});
my $before = sql($search);
is(sql('SELECT rag_distribute()'), '60', 'chunks are distributed');
is(sql($search), $before, 'the answers are those of one server');

sql('ALTER EXTENSION rag UPDATE');
my $version = sql(q{SELECT default_version FROM pg_available_extensions WHERE name = 'rag'});
is(versions(), join(' ', ($version) x 3), 'the update reaches all nodes');
is(sql($search), $before, 'the answers stay');
is(sql(q{SELECT success FROM rag_add_document('Pretzels are baked by night.', 'pretzels')}),
	't', 'documents are added');
is(sql(q{SELECT uri FROM rag_search('pretzels at night', top_k => 1)}),
	'pretzels', 'and found');
is(sql(q{SELECT count(*) FROM rag_check_shards()}), '0', 'the indexes of all shards are complete');
is(sql('SELECT rag_undistribute()'), '61', 'everything comes back');
is(sql(q{SELECT uri FROM rag_search('pretzels at night', top_k => 1)}),
	'pretzels', 'and is found there');

$_->stop for $node, @workers;
done_testing();
