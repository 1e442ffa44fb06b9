# Inserts, deletes, updates, searches, vacuum, merges and rebuilds at the same time: no statement
# fails and no row is lost.
use strict;
use warnings;
use Test::More;
use RagBm25Load;

test_under_load(10);
done_testing();
