# Two sessions use the same source, document or extension at once. One is rejected or waits. Nothing
# is stored twice or partly, and no session crashes.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagHold ();

my $node = rag_node('concurrent', conf => "rag.allowed_private_hosts = '127.0.0.1'");
my $folder = write_documents(temp_folder(), 48, 12);
my $other_folder = write_documents(temp_folder(), 12, 4, 'b');
my $witness = witness($node);
$node->safe_psql('postgres', "SELECT rag_embed('hello'); SELECT rag_create_collection('other')");
my $embed = engine_pid($node, 'embed');

# -- the same source, from two sessions
create_folder_source($node, 'docs', $folder);
freeze($embed);
my $first = start_sql($node, "SELECT rag_sync('docs')");
await('the first sync runs', sub { ask($node, 'SELECT count(*) FROM rag.progress') });
error_like(
	run_sql($node, "SELECT rag_sync('docs')"),
	'55006', 'source "docs" is being synced by another session',
	'rag.progress', 'a second sync of a busy source is rejected');
error_like(
	run_sql($node, "SELECT rag_sync('docs', wait => false)"),
	'55006', 'is being synced',
	'rag.progress', 'a second sync of a busy source is rejected with wait => false');
thaw($embed);
is($first->finish->{rc}, 0, 'the first sync succeeds');
is(run_row($node, 'docs', 'phase, documents_added, chunks_written, chunks_embedded'),
	'Completed|48|576|576', 'the first sync has stored all documents');
my $clean = stored($node);
like($clean, qr/\A0\n0\n48\|\w+\n576\|/, 'no document is stored twice after a rejected sync');

# the order of simultaneous syncs is undefined, but only one runs at a time
forget_collection($node);
my @results = map { $_->finish } map { start_sql($node, "SELECT rag_sync('docs')") } 1 .. 4;
my @refused = grep { $_->{rc} != 0 } @results;
cmp_ok(scalar(@refused), '<', 4, 'at least one of four simultaneous syncs succeeds');
error_like($_, '55006', 'is being synced',
	'rag.progress', 'each rejected sync reports that the source is busy')
  for @refused;
is(stored($node), $clean, 'no document is stored twice after simultaneous syncs');
is( ask($node,
		"SELECT count(*) FROM rag.runs a JOIN rag.runs b ON a.run_id < b.run_id
			AND a.source = b.source
	AND a.finished_at > b.started_at AND b.finished_at > a.started_at"),
	'0',
	'runs of a source never overlap');

# -- two sources
create_folder_source($node, 'others', $other_folder, 'other');
create_folder_source($node, 'more', $other_folder);
forget_collection($node);
@results =
  map { $_->finish } map { start_sql($node, "SELECT rag_sync('$_')") } qw(docs others more);
is(join(' ', map { $_->{rc} } @results),
	'0 0 0', 'three sources can be synced at once into a new and an existing collection')
  or diag(map { $_->{err} } @results);
is( ask($node, "SELECT string_agg(format('%s %s %s', source, status, n), ', ' ORDER BY source)
	FROM (SELECT source, status, count(*) AS n FROM rag.documents GROUP BY 1, 2) d"),
	'docs active 48, more active 12, others active 12',
	'each of three concurrent syncs stores its documents');

# two sources fill a collection that has no partition yet
$node->safe_psql('postgres', "SELECT rag_create_collection('fresh')");
create_folder_source($node, "fresh-$_", $other_folder, 'fresh') for 1 .. 3;
@results = map { $_->finish } map { start_sql($node, "SELECT rag_sync('fresh-$_')") } 1 .. 3;
is(join(' ', map { $_->{rc} } @results),
	'0 0 0', 'three sources can be synced at once into a new collection')
  or diag(map { $_->{err} } @results);
like(stored($node, 'fresh'),
	qr/\A0\n0\n36\|\w+\n144\|/, 'three concurrent syncs store all documents');

# another first writer has locked the row so, and will not wait for this one
$node->safe_psql('postgres', "SELECT rag_create_collection('empty')");
my $writer = session($node);
$writer->query("BEGIN; SELECT FROM rag_internal.collection WHERE name = 'empty' FOR KEY SHARE");
is( ask($node,
		"SET lock_timeout = '10s';
		SELECT success FROM rag_add_document('The first text.', 'first', collection => 'empty')"),
	't',
	'the first writer of a collection does not wait for another one');
$writer->query('COMMIT');

# -- a source is dropped during its run
# depends on what is seen first, the end of the run or the drop
my $dropped_during_run = '55000: source "pages" was dropped during the run';
my $stopped_before_drop = '57P01: the run was stopped because the source was about to be dropped';
my $dropped_meanwhile = qr/ERROR:  (?:$dropped_during_run|$stopped_before_drop)/;
my $pages = RagHold::files_between_pages($folder, 'middle');

sub create_pages
{
	return $node->safe_psql('postgres', "SELECT rag_create_source('pages', 'static', '$pages')");
}

forget_collection($node);
create_pages();
my $sync = RagHold::start_sync_and_hold($node, 'pages', 25);
is(run_sql($node, "SELECT rag_drop_source('pages')")->{rc},
	0, 'a source can be dropped during a sync');
like($sync->finish->{err}, $dropped_meanwhile, 'the sync of a dropped source reports the reason');
await('the processes of the run have ended', sub { !engines($node, 'ingest') });
like(stored($node), qr/\A0\n0\n(?:2[5-9]|[3-9]\d)\|/,
	'documents stored before the drop are kept, all with all their chunks');
is(ask($node, 'SELECT count(*) FROM rag.progress'), '0', 'no run is active after the drop');
same_cluster($witness, 'a source dropped during a sync');

create_pages();
forget_collection($node);
$sync = RagHold::start_sync_and_hold($node, 'pages', 25);
is(run_sql($node, "SELECT rag_drop_source('pages', keep_documents => false)")->{rc},
	0, 'a source can be dropped with its documents during a sync');
like($sync->finish->{err},
	$dropped_meanwhile, 'the sync of a source dropped with its documents reports the reason');
is(ask($node, "SELECT count(*) FROM rag.documents WHERE source = 'pages'"),
	'0', 'the interrupted sync adds no documents after the drop');

# -- one document, from two sessions
for my $round (1 .. 5)
{
	my @sessions = map {
		start_sql(
			$node,
			"SELECT success, chunks_indexed
				FROM rag_add_document(repeat('Text $round of session $_. ', 15), 'the-uri')"
		)
	} 1 .. 4;
	@results = map { $_->finish } @sessions;
	is( join(' ', map { $_->{out} } @results),
		't|1 t|1 t|1 t|1',
		'four sessions can add a document with the same uri at once'
	) or diag(map { $_->{err} } @results);
	like(stored($node), qr/\A0\n0\n/, 'the document has the chunks of one of four sessions');
}
is(ask($node, "SELECT count(*), sum(chunk_count) FROM rag.documents WHERE uri = 'the-uri'"),
	'1|1', 'one document exists after four sessions added the same uri');
is( ask($node,
		"SELECT count(*), bool_and(c.content = btrim(d.content)) FROM rag.chunks c
			JOIN rag.documents d USING (document_id) WHERE c.uri = 'the-uri'"
	),
	'1|t',
	'the chunks are those of the stored text');

# -- reads during a sync
forget_collection($node);
my $incomplete = "SELECT count(*) FROM rag.documents d WHERE d.status = 'active'
	AND d.chunk_count <> (SELECT count(*) FROM rag.chunks c WHERE c.collection = d.collection
	AND c.document_id = d.document_id)";
my ($looks, $seen) = (0, 0);
$sync = start_sql($node, "SELECT rag_sync('docs')");
while ($sync->is_waiting)
{
	$looks++;
	$seen += ask($node, $incomplete);
	ask($node,
		"SELECT count(*) FROM rag_search(NULL, top_k => 50, query_embedding => (SELECT embedding
			FROM rag.chunks LIMIT 1))"
	);
}
is($sync->finish->{rc}, 0, "documents were read $looks times during a sync");
is($seen, 0, 'only complete documents are visible during a sync');

# -- a collection that is dropped, or dropped and created again
for my $again ('', "; SELECT rag_create_collection('going', chunk_size => 100)")
{
	ask($node, "SELECT rag_create_collection('going')") if $again eq '';
	my $dropping = session($node);
	$dropping->query("BEGIN; SELECT rag_drop_collection('going')$again");
	my $adding = start_sql($node, "SELECT rag_add_document('Late.', 'a', collection => 'going')");
	$adding->await_locked;
	$dropping->query('COMMIT');
	error_like($adding->finish, $again ? '40001' : '42704',
		$again ? 'was dropped and created again meanwhile' : 'does not exist',
		$again ? 'Try again' : 'rag_create_collection',
		'a document for a collection that another session drops');
	ask($node, "SELECT rag_create_collection('going')") if $again eq '';
}
is(ask($node, "SELECT count(*) FROM rag.documents WHERE collection = 'going'"),
	'0', 'nothing is left of it');

# -- the extension itself
forget_collection($node);
create_pages();
$sync = RagHold::start_sync_and_hold($node, 'pages', 25);
my $dropped = run_sql($node, 'DROP EXTENSION rag CASCADE');
is($dropped->{rc}, 0, 'the extension can be dropped during a sync') or diag($dropped->{err});
error_like($sync->finish, '55000', 'another session needs the database without running syncs',
	undef, 'a session that waits for the run reports the drop of the extension');
await(
	'the runner and its processes have ended',
	sub {
		!engines($node, 'ingest')
		  && ask($node, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'rag runner'")
		  eq '0';
	});
RagHold::release('middle');
same_cluster($witness, 'the extension dropped during a sync');
$node->safe_psql('postgres', 'CREATE EXTENSION rag');
create_folder_source($node, 'docs', $folder);
sync_ok($node, 'docs', 'a new extension can sync the source');
is(stored($node), $clean, 'a new extension syncs everything again');

$node->stop;
done_testing();
