# Names and external ids of collections are one name space, also for sessions that give them at the
# same time.
use strict;
use warnings;

use RagCluster;
use Test::More;

my $node = rag_node('name_space');

sub sql { return $node->safe_psql('postgres', @_) }

# Runs both statements in transactions at once. The second one waits for the first, and gets an
# error if that one commits.
sub exclude_each_other
{
	my ($first, $second, $error, $name) = @_;
	for my $end ('ROLLBACK', 'COMMIT')
	{
		my $session = session($node);
		$session->query("BEGIN; SELECT $first");
		my $other = start_sql($node, "SELECT $second");
		$node->poll_query_until('postgres',
			q{SELECT count(*) = 1 FROM pg_locks WHERE NOT granted})
		  || die 'nobody waits';
		$session->query($end);
		my $result = $other->finish;
		if ($end eq 'COMMIT')
		{
			like($result->{err}, $error, "$name: the second one is refused");
		}
		else
		{
			is($result->{err}, '', "$name: after a rollback it is not");
			sql(q{SELECT rag_drop_collection(name) FROM rag.collections WHERE name ~ '^(one|kb)'});
		}
	}
	sql(q{SELECT rag_drop_collection(name) FROM rag.collections WHERE name ~ '^(one|kb)'});
	return;
}

exclude_each_other(
	q{rag_create_collection('one', external_id => 'kb')},
	q{rag_create_collection('kb')},
	qr/collection name "kb" is already in use/,
	'a name that becomes an external id');
exclude_each_other(
	q{rag_create_collection('kb')},
	q{rag_create_collection('one', external_id => 'kb')},
	qr/external_id "kb" is already in use/,
	'an external id that becomes a name');
exclude_each_other(
	q{rag_create_collection('one', external_id => 'kb-1')},
	q{rag_create_collection('one-more', external_id => 'kb-1')},
	qr/external_id "kb-1" is already in use/,
	'an external id twice');

# Different names do not wait for each other.
my $session = session($node);
$session->query(q{BEGIN; SELECT rag_create_collection('a', external_id => 'a-id')});
sql(q{SELECT rag_create_collection('b', external_id => 'b-id')});
$session->query('COMMIT');
is(sql(q{SELECT count(*) FROM rag.collections}), 3, 'other names do not wait');

$node->stop;
done_testing();
