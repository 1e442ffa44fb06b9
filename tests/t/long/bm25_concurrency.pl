# tests/t/112_bm25_concurrency.pl for a minute.
use strict;
use warnings;
use Test::More;
use RagBm25Load;

test_under_load(60);
done_testing();
