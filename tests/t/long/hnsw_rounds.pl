# tests/t/090_hnsw_rounds.pl with more rows and more rounds.
use strict;
use warnings;
use Test::More;
use RagHnswRounds;

my $node = rounds_node('rounds', clusters => 100, rows => 20_000, seed => seed());
test_rounds($node, rounds => 8, nearest => [ 10, 300, 1000 ]);
$node->stop;
done_testing();
