# DROP EXTENSION rag reports what it removes and what it leaves, with and without preload.
use strict;
use warnings;
use Test::More;
use RagCluster;

for my $preload (0, 1)
{
	my $with = $preload ? 'with preload' : 'without preload';
	my $node = rag_node("drop_extension_$preload", preload => $preload);
	my $sql = sub { return $node->safe_psql('postgres', @_) };
	$sql->(
		q{SELECT rag_create_collection('empty'); SELECT rag_create_collection('full');
		SELECT rag_add_document('A text.', 'a', collection => 'full');
		SELECT rag_add_document('Another text.', 'b', collection => 'full');
		SELECT rag_add_document('A text.', 'a')});

	my $folder = temp_folder();
	$sql->(
		qq{SELECT rag_create_source('nothing', 'folder', '{"path": "$folder"}', 'empty',
			schedule => '\@yearly')}
	);
	is( $sql->(
			q{SELECT problem ~ '^rag is not in shared_preload_libraries: ',
				remedy ~ 'restart the server' FROM rag_status() WHERE object = 'server'
				AND problem !~ 'scheduler'}
		),
		$preload ? '' : 't|t',
		"$with: rag_status reports missing shared_preload_libraries");

	for my $statement (
		'DROP EXTENSION rag',
		'DROP EXTENSION IF EXISTS rag RESTRICT',
		'DROP EXTENSION plpgsql, rag',
		'DROP OWNED BY CURRENT_USER')
	{
		my $result = run_sql($node, $statement);
		error_like($result, '2BP01',
			'cannot drop extension rag because collections contain documents',
			'CASCADE', "$with: $statement is rejected");
		like(
			$result->{err},
			qr/^DETAIL:  collection default: 1 document\ncollection full: 2 documents$/m,
			"$with: the error lists what exists");
	}
	is($sql->('SELECT count(*) FROM rag.chunks'),
		'3', "$with: a rejected DROP EXTENSION removes nothing");
	$sql->('CREATE ROLE outsider LOGIN');
	my $result = run_sql($node, 'DROP EXTENSION rag', user => 'outsider');
	error_like($result, '42501', 'must be owner of extension rag',
		undef, "$with: a role without privileges gets a permission error");
	unlike($result->{err}, qr/full/, "$with: the permission error contains no contents");
	unlike(run_sql($node, 'DROP EXTENSION IF EXISTS not_there')->{err},
		qr/ERROR|rag/, "$with: other extensions can be dropped");

	$result = run_sql($node,
		'BEGIN; DROP EXTENSION rag CASCADE; ROLLBACK; SELECT count(*) FROM rag.chunks');
	is($result->{out}, '3', "$with: CASCADE can be rolled back") or diag($result->{err});
	$result = run_sql($node, 'DROP EXTENSION rag CASCADE');
	is($result->{rc}, 0, "$with: CASCADE drops the extension") or diag($result->{err});
	my $leaves = 'extension rag leaves the roles rag_admin and rag_reader'
	  . ' and the folder pg_rag of the data directory';
	like($result->{err}, qr/NOTICE:.*\Q$leaves\E/, "$with: a notice lists what remains");
	is($sql->(q{SELECT count(*) FROM pg_class WHERE relname LIKE 'rag%'}),
		'0', "$with: no table remains");

	$sql->('CREATE EXTENSION rag');
	$result = run_sql($node, 'DROP EXTENSION rag');
	is($result->{rc}, 0, "$with: CASCADE is not needed without documents") or diag($result->{err});
	$sql->(q{CREATE EXTENSION rag; SELECT rag_add_document('A text.', 'a')});
	$sql->(q{SELECT rag_delete_document(document_id) FROM rag.documents});
	is(run_sql($node, 'DROP EXTENSION rag')->{rc},
		0, "$with: CASCADE is not needed after all documents were removed");

	# a dump that drops objects before it restores them
	next if !$preload;
	$sql->(q{CREATE EXTENSION rag; SELECT rag_add_document('A text.', 'a')});
	my $dump = $node->data_dir . '/../clean.dump';
	$node->command_ok([ 'pg_dump', '--format=custom', "--file=$dump", $node->connstr('postgres') ],
		'pg_dump succeeds');
	$node->command_ok(
		[
			'pg_restore', '--clean', '--if-exists', '--exit-on-error',
			'--dbname', $node->connstr('postgres'), $dump
		],
		'pg_restore --clean succeeds over existing documents');
	is($sql->(q{SELECT uri FROM rag_search('text')}),
		'a', 'pg_restore --clean restores the contents');
	$node->stop;
}

done_testing();
