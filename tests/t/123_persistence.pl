# Persistence properties P1 to P8 (index persistence): a hundred random cases of each, over
# collections of one cluster. The model in RagPersistence.pm says what must be there. The long
# version is long/persistence.pl.
use strict;
use warnings;
use utf8;
use Test::More;
use RagCluster;
use RagPersistence;
use RagPersistenceProperties;

my $node = rag_node(
	'persistence',
	initdb => ['--data-checksums'],
	conf => "autovacuum = off\nmax_locks_per_transaction = 256\n"
	  . "wal_level = replica\nmax_wal_senders = 5\nhot_standby = on\n");
my $test = RagPersistence->new($node);
test_properties($test);
$node->stop;
done_testing();
