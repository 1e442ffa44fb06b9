# tests/t/123_persistence.pl with more cases and another seed each time; and what takes minutes:
# kill -9 during operations, 10,000 documents, and 80 sessions in 20 collections.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagPersistence;
use RagPersistenceLoad;
use RagPersistenceProperties;

my $node = rag_node(
	'persistence',
	initdb => ['--data-checksums'],
	conf => "autovacuum = off\nmax_locks_per_transaction = 256\nmax_connections = 150\n"
	  . "wal_level = replica\nmax_wal_senders = 5\nhot_standby = on\n");
my $test = RagPersistence->new($node, seed => time, cases => 200);
test_properties($test);
many_sessions($node, 20, 4, 30);
many_documents($node, 10_000);
# the last one: PostgreSQL leaves the files of relations that were being created
crashes($test, 40);
$node->stop;
done_testing();
