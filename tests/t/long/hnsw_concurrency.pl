# tests/t/022_hnsw_concurrency.pl for a minute.
use strict;
use warnings;
use Test::More;
use RagHnswLoad;

test_under_load(60);
done_testing();
