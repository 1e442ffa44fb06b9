# Recall stays the same through inserts, deletes, vacuums and updates, for many dimensions and all
# metrics.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagHnsw;

my $node = hnsw_node('hnsw_wide_cycles');
recall_survives_cycles($node, 384, 1000);
recall_survives_cycles($node, 1000, 400);

$node->stop;
done_testing();
