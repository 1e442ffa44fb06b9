# Recall stays the same through inserts, deletes, vacuums and updates, for few dimensions and all
# metrics.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagHnsw;

my $node = hnsw_node('hnsw_cycles');
recall_survives_cycles($node, 3, 2000);
recall_survives_cycles($node, 64, 2000);

$node->stop;
done_testing();
