# DROP EXTENSION rag says what it takes with it and what it leaves, with and without preload.
use strict;
use warnings;
use Test::More;
use RagCluster;

for my $preload (0, 1)
{
	my $with = $preload ? 'with preload' : 'without preload';
	my $node = rag_node("drop_extension_$preload", preload => $preload);
	my $sql = sub { return $node->safe_psql('postgres', @_) };
	$sql->(q{SELECT rag_create_collection('empty'); SELECT rag_create_collection('full');
		SELECT rag_add_document('A text.', 'a', collection => 'full'); SELECT rag_add_document('Another text.', 'b', collection => 'full');
		SELECT rag_add_document('A text.', 'a')});

	my $folder = temp_folder();
	$sql->(qq{SELECT rag_create_source('nothing', 'folder', '{"path": "$folder"}', 'empty', schedule => '\@yearly')});
	is($sql->(q{SELECT problem ~ '^rag is not in shared_preload_libraries: ', remedy ~ 'restart the server' FROM rag_status() WHERE object = 'server' AND problem !~ 'scheduler'}),
		$preload ? '' : 't|t', "$with: rag_status says so where that is missing");

	for my $statement ('DROP EXTENSION rag', 'DROP EXTENSION IF EXISTS rag RESTRICT', 'DROP EXTENSION plpgsql, rag', 'DROP OWNED BY CURRENT_USER')
	{
		my $result = run_sql($node, $statement);
		error_like($result, '2BP01', 'cannot drop extension rag because collections contain documents', 'CASCADE', "$with: $statement is refused");
		like($result->{err}, qr/^DETAIL:  collection default: 1 document\ncollection full: 2 documents$/m, "$with: and says what there is");
	}
	is($sql->('SELECT count(*) FROM rag.chunks'), '3', "$with: nothing is lost");
	$sql->('CREATE ROLE outsider LOGIN');
	my $result = run_sql($node, 'DROP EXTENSION rag', user => 'outsider');
	error_like($result, '42501', 'must be owner of extension rag', undef, "$with: who may not is told that");
	unlike($result->{err}, qr/full/, "$with: and nothing else");
	unlike(run_sql($node, 'DROP EXTENSION IF EXISTS not_there')->{err}, qr/ERROR|rag/, "$with: other extensions are none of its business");

	$result = run_sql($node, 'BEGIN; DROP EXTENSION rag CASCADE; ROLLBACK; SELECT count(*) FROM rag.chunks');
	is($result->{out}, '3', "$with: CASCADE, rolled back, is nothing") or diag($result->{err});
	$result = run_sql($node, 'DROP EXTENSION rag CASCADE');
	is($result->{rc}, 0, "$with: CASCADE drops it") or diag($result->{err});
	like($result->{err}, qr/NOTICE:.*extension rag leaves the roles rag_admin and rag_reader and the folder pg_rag of the data directory/, "$with: and says what stays");
	is($sql->(q{SELECT count(*) FROM pg_class WHERE relname LIKE 'rag%'}), '0', "$with: no table is left");

	$sql->('CREATE EXTENSION rag');
	$result = run_sql($node, 'DROP EXTENSION rag');
	is($result->{rc}, 0, "$with: without documents it needs no CASCADE") or diag($result->{err});
	$sql->(q{CREATE EXTENSION rag; SELECT rag_add_document('A text.', 'a')});
	$sql->(q{SELECT rag_remove_document(document_id) FROM rag.documents});
	is(run_sql($node, 'DROP EXTENSION rag')->{rc}, 0, "$with: nor where they were removed");

	# a dump that cleans up before it restores
	next if !$preload;
	$sql->(q{CREATE EXTENSION rag; SELECT rag_add_document('A text.', 'a')});
	my $dump = $node->data_dir . '/../clean.dump';
	$node->command_ok([ 'pg_dump', '--format=custom', "--file=$dump", $node->connstr('postgres') ], 'a dump');
	$node->command_ok([ 'pg_restore', '--clean', '--if-exists', '--exit-on-error', '--dbname', $node->connstr('postgres'), $dump ], 'is restored over what is there with --clean');
	is($sql->(q{SELECT uri FROM rag_search('text')}), 'a', 'and there is what there was');
	$node->stop;
}

done_testing();
