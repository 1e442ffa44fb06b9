# A dropped source leaves its documents, which no later source of the same name deletes, and
# notifications in order.
use strict;
use warnings;
use JSON::PP qw(decode_json);
use Test::More;
use RagCluster;
use RagHold ();
use RagWorkers qw(status_of);

RagHold::origin();
my $node = rag_node('dropped_sources', scheduler => 1, conf => <<'CONF');
rag.retry_delay = '30min'
rag.allowed_private_hosts = '127.0.0.1'
max_worker_processes = 20
CONF
my ($first, $second) = (temp_folder(), temp_folder());
write_file("$first/bread.md", "# Bread\n\nBread is baked in the morning.\n");
write_file("$first/rolls.md", "# Rolls\n\nRolls are baked at noon.\n");
write_file("$second/cake.md", "# Cake\n\nCake is baked in the evening.\n");

sub sql { return $node->safe_psql('postgres', @_) }

sub create
{
	my ($name, $folder, $collection) = @_;
	return sql(
		qq{SELECT rag_create_source('$name', 'folder', '{"path": "$folder"}', '$collection',
		suspend => true)}
	);
}

sub titles
{
	my ($collection) = @_;
	return sql(
		"SELECT string_agg(title || ' ' || coalesce(source, '-'), ', ' ORDER BY title, source)
		FROM rag.documents WHERE collection = '$collection'"
	);
}

sub found
{
	my ($question, $collection) = @_;
	return sql("SELECT title FROM rag_search('$question', '$collection', top_k => 1)");
}
sub drifted { my ($source) = @_; return sql("SELECT drifted FROM rag_check_drift('$source')") }
my $did =
  'documents_added, documents_updated, documents_deleted, documents_unchanged, chunks_embedded';

subtest 'documents that are kept after their source was dropped' => sub {
	sql(q{SELECT rag_create_collection('kept')});
	create('k', $first, 'kept');
	sync_ok($node, 'k');
	my $ids = sql(
		q{SELECT string_agg(document_id::text, ' ' ORDER BY uri) FROM rag.documents
		WHERE collection = 'kept'}
	);
	sql(q{SELECT rag_drop_source('k')});
	is(titles('kept'), 'Bread -, Rolls -', 'kept documents have no source');
	is( sql(q{SELECT string_agg(document_id::text, ' ' ORDER BY uri) FROM rag.documents
	WHERE collection = 'kept'}
		),
		$ids,
		'kept documents have the same ids');
	is(found('when is bread baked?', 'kept'), 'Bread', 'a search finds kept documents');
	is(sql(q{SELECT count(*) FROM rag_internal.document_digest WHERE collection = 'kept'}),
		'0', 'kept documents have no digests');

	create('k', $second, 'kept');
	sync_ok($node, 'k', 'a later source of the same name can be synced');
	is(run_row($node, 'k', $did),
		'1|0|0|0|1', 'a later source adds its own documents and deletes none');
	is( titles('kept'),
		'Bread -, Cake k, Rolls -',
		'kept documents remain after a sync of a later source');
	is(drifted('k'), 'f', 'kept documents are not drift of a later source');
	sql(q{DELETE FROM rag.documents WHERE collection = 'kept' AND source = 'k'});
	is(drifted('k'), 't', 'a later source detects drift of its own documents');
	sync_ok($node, 'k', 'a later source repairs its drift');
	is(titles('kept'), 'Bread -, Cake k, Rolls -', 'the repair leaves all kept documents');
	is(sql(q{SELECT count(*) FROM rag.chunks WHERE collection = 'kept'}),
		'3', 'the repair leaves all kept chunks');
	sql(q{SELECT rag_drop_source('k', keep_documents => false)});
	is( titles('kept'),
		'Bread -, Rolls -',
		'a later source dropped with its documents removes only its own');
};

subtest 'a later source with the same documents' => sub {
	create('k', $first, 'kept');
	write_file("$first/empty-now.md", '');
	sync_ok($node, 'k', 'the later source is synced');
	unlink "$first/empty-now.md";
	is(run_row($node, 'k', 'documents_added, documents_updated, chunks_embedded'),
		'0|2|0', 'the later source takes the documents over without embedding them again');
	is(titles('kept'), 'Bread k, Rolls k', 'the documents taken over exist once')
	  or diag(sql('SELECT * FROM rag.run_errors'));
	is(drifted('k'), 'f', 'the documents taken over have no drift');
	unlink "$first/rolls.md";
	sync_ok($node, 'k');
	is(titles('kept'), 'Bread k', 'the documents taken over are removed with their files');
	write_file("$first/rolls.md", "# Rolls\n\nRolls are baked at noon.\n");
	sync_ok($node, 'k');

	# a document that the source cannot read
	sql(q{SELECT rag_drop_source('k')});
	create('k', $first, 'kept');
	write_file("$first/rolls.md",
		"\x7fELF\x02\x01\x01" . ("\0" x 9) . "\x03\0\x3e\0\x01\0\0\0 not text");
	run_sql($node, q{SELECT rag_sync('k')});
	is( sql(q{SELECT title, status, source IS NULL FROM rag.documents WHERE collection = 'kept'
	AND title = 'Rolls'}
		),
		'Rolls|active|t',
		'a document that the later source cannot read is kept unchanged');
	is(drifted('k'), 'f', 'a kept document that cannot be read is no drift');
	sql(q{SELECT rag_drop_source('k')});
};

subtest 'documents of a table' => sub {
	sql(q{CREATE TABLE dishes (id int PRIMARY KEY, body text);
	INSERT INTO dishes VALUES (1, 'Stew takes hours.'), (2, 'Soup is hot.');
		SELECT rag_create_collection('dishes')});
	my $spec = q{'table', '{"relation": "public.dishes", "contentColumns": ["body"],
	  "sync": "trigger"}', 'dishes', suspend => true};
	sql("SELECT rag_create_source('d', $spec)");
	sync_ok($node, 'd');
	sql(q{SELECT rag_drop_source('d'); DELETE FROM dishes WHERE id = 2});
	sql("SELECT rag_create_source('d', $spec)");
	sync_ok($node, 'd');
	is(run_row($node, 'd', $did), '0|1|0|0|0', 'a later source takes over an unchanged row');
	is(titles('dishes'), 'dishes 1 d, dishes 2 -', 'the document of a deleted row is kept');
	sql(q{INSERT INTO dishes VALUES (2, ''); DELETE FROM dishes WHERE id = 2});
	sync_ok($node, 'd');
	is( titles('dishes'),
		'dishes 1 d, dishes 2 -',
		'the document of a row that was inserted and deleted again is kept');
};

subtest 'rag_delete_manifest keeps documents by default' => sub {
	sql(q{SELECT rag_create_collection('deleted')});
	for my $keep (undef, 'true', 'false')
	{
		create('x', $second, 'deleted');
		sync_ok($node, 'x');
		sql(q{SELECT rag_delete_manifest('AutoIndexer', 'x'} . (defined $keep ? ", $keep)" : ')'));
		is( titles('deleted'),
			($keep // '') eq 'false' ? undef // '' : 'Cake -',
			'keep_documents => '
			  . ($keep // 'rag_delete_manifest keeps documents unless told otherwise'));
	}
	is(sql(q{SELECT rag_delete_manifest('AutoIndexer', 'x', keep_documents => false)}),
		'f', 'rag_delete_manifest returns false for a source that does not exist');
};

subtest 'notifications of a drop' => sub {
	my $listener = session($node);
	$listener->query('LISTEN rag_events');
	my @events;
	my $hear = sub {
		push @events,
		  map { decode_json($_) }
		  $listener->query('SELECT 1') =~ /notification "rag_events" with payload "(.*)" received/g;
		return join ', ', map { $_->{phase} . (defined $_->{run_id} ? ' run' : '') }
		  grep { $_->{source} eq 'heard' } @events;
	};
	my $hears = sub {
		my ($expected, $name) = @_;
		my $heard = '';
		eval {
			await($expected, sub { ($heard = $hear->()) eq $expected });
		};
		is($heard, $expected, $name) or diag(status_of($node));
		@events = ();
	};
	my $spec = sprintf '{"endpoints": ["%s"]}', RagHold::page('heard');
	RagHold::hold('heard');
	sql("SELECT rag_create_source('heard', 'static', '$spec', max_retries => 3)");
	RagHold::await_request('heard');
	$hears->('Pending, Pending run, Running run', 'a run is in progress before the drop');
	my $session = session($node);
	$session->query(q{BEGIN; SELECT rag_drop_source('heard')});
	$hears->(
		'Terminating, Failed run',
		'a dropped source is announced as Terminating at once and its run is not retried');
	$session->query('COMMIT');
	$hears->('Deleted', 'a dropped source is announced as Deleted after the commit');
	RagHold::release('heard');

	sql("SELECT rag_create_source('heard', 'static', '$spec', suspend => true)");
	$hears->('Suspended', 'creation of a suspended source is announced');
	sql(q{SELECT rag_drop_source('heard', keep_documents => false)});
	$hears->(
		'Terminating, Deleted',
		'the drop of a suspended source is announced as Terminating and Deleted');
};

$node->stop;
done_testing();
