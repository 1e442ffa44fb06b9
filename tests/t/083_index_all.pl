# rag_index_all indexes each item in its own transaction, so that a cancel loses only the current
# item.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagHold ();

my $node = rag_node('index_all', conf => "rag.allowed_private_hosts = '127.0.0.1'");
my $folder = write_documents(temp_folder(), 2, 1);
my @files = sort glob "$folder/*";
my $slow = RagHold::page('slow');
$node->safe_psql(
	'postgres', "SELECT rag_create_knowledge(1, NULL, '$files[0]');
	SELECT rag_create_knowledge(2, NULL, '$slow', 'website');
	SELECT rag_create_knowledge(3, NULL, '$files[1]')");
my $statuses =
  "SELECT string_agg(knowledge_id || ' ' || status, ', ' ORDER BY knowledge_id) FROM rag.knowledge";

RagHold::hold('slow');
my $call = start_sql($node, 'CALL rag_index_all()');
RagHold::await_request('slow');
is( ask($node, $statuses),
	'1 active, 2 pending, 3 pending',
	'an item is committed before the next item is fetched');
is(ask($node, 'SELECT count(*) FROM rag.documents WHERE knowledge_id = 1'),
	'1', 'the document of the first item is stored');
ask($node, 'SELECT pg_cancel_backend(' . $call->backend . ')');
error_like($call->finish, '57014', 'canceling statement due to user request',
	undef, 'rag_index_all can be cancelled');
is(ask($node, $statuses), '1 active, 2 pending, 3 pending', 'a cancel loses only the current item');

RagHold::release('slow');
my $result = run_sql($node, "CALL rag_index_all('pending')");
is($result->{rc}, 0, 'another call indexes the remaining items') or diag($result->{err});
like($result->{out}, qr/"total_items": 2/, 'another call indexes no other items');
is(ask($node, $statuses), '1 active, 2 active, 3 active', 'all items are active');

$node->stop;
done_testing();
