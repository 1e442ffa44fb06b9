# Inserts, deletes, updates, searches, vacuum and rebuilding at the same time: no error, and no row
# is ever lost.
use strict;
use warnings;
use Test::More;
use RagHnswLoad;

test_under_load(10);
done_testing();
