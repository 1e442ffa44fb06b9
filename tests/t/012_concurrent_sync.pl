# Two sessions do things to the same source, document or extension at once: one is refused or waits,
# nothing is doubled or half done, and nobody crashes.
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
error_like(run_sql($node, "SELECT rag_sync('docs')"), '55006', 'source "docs" is being synced by another session', 'rag.progress',
	'a second sync of the same source is refused');
error_like(run_sql($node, "SELECT rag_sync('docs', wait => false)"), '55006', 'is being synced', 'rag.progress',
	'also one that does not wait');
thaw($embed);
is($first->finish->{rc}, 0, 'the first sync is not disturbed');
is(run_row($node, 'docs', 'phase, documents_added, chunks_written, chunks_embedded'), 'Completed|48|576|576', 'and has done all');
my $clean = stored($node);
like($clean, qr/\A0\n0\n48\|\w+\n576\|/, 'nothing is doubled');

# at the very same moment it cannot be told who is first, but only one runs at a time
forget_collection($node);
my @results = map { $_->finish } map { start_sql($node, "SELECT rag_sync('docs')") } 1 .. 4;
my @refused = grep { $_->{rc} != 0 } @results;
cmp_ok(scalar(@refused), '<', 4, 'of four sessions at the same moment at least one syncs');
error_like($_, '55006', 'is being synced', 'rag.progress', 'the other is told so') for @refused;
is(stored($node), $clean, 'nothing is doubled');
is(ask($node, "SELECT count(*) FROM rag.runs a JOIN rag.runs b ON a.run_id < b.run_id AND a.source = b.source
	AND a.finished_at > b.started_at AND b.finished_at > a.started_at"), '0', 'no two runs of a source overlap');

# -- two sources
create_folder_source($node, 'others', $other_folder, 'other');
create_folder_source($node, 'more', $other_folder);
forget_collection($node);
@results = map { $_->finish } map { start_sql($node, "SELECT rag_sync('$_')") } qw(docs others more);
is(join(' ', map { $_->{rc} } @results), '0 0 0', 'three sources are synced at once, two of them into a new collection and an old one')
  or diag(map { $_->{err} } @results);
is(ask($node, "SELECT string_agg(format('%s %s %s', source, status, n), ', ' ORDER BY source)
	FROM (SELECT source, status, count(*) AS n FROM rag.documents GROUP BY 1, 2) d"), 'docs active 48, more active 12, others active 12',
	'and each has its documents');

# two sources fill a collection that has no partition yet
$node->safe_psql('postgres', "SELECT rag_create_collection('fresh')");
create_folder_source($node, "fresh-$_", $other_folder, 'fresh') for 1 .. 3;
@results = map { $_->finish } map { start_sql($node, "SELECT rag_sync('fresh-$_')") } 1 .. 3;
is(join(' ', map { $_->{rc} } @results), '0 0 0', 'three sources fill a new collection at once') or diag(map { $_->{err} } @results);
like(stored($node, 'fresh'), qr/\A0\n0\n36\|\w+\n144\|/, 'and nothing is missing');

# -- dropped while it runs
# it depends on whether the run's end or the drop is seen first
my $dropped_meanwhile = qr/ERROR:  (55000: source "pages" was dropped during the run|57P01: the run was stopped because the source was about to be dropped)/;
my $pages = RagHold::files_between_pages($folder, 'middle');
sub create_pages { return $node->safe_psql('postgres', "SELECT rag_create_source('pages', 'static', '$pages')") }

forget_collection($node);
create_pages();
my $sync = RagHold::begin_in_the_middle($node, 'pages', 25);
is(run_sql($node, "SELECT rag_drop_source('pages')")->{rc}, 0, 'a source is dropped while it is synced');
like($sync->finish->{err}, $dropped_meanwhile, 'its sync says so');
await('its processes have ended', sub { !engines($node, 'ingest') });
like(stored($node), qr/\A0\n0\n25\|/, 'what it had stored stays, each document whole');
is(ask($node, 'SELECT count(*) FROM rag.progress'), '0', 'no run is left');
same_cluster($witness, 'a source is dropped while it is synced');

create_pages();
forget_collection($node);
$sync = RagHold::begin_in_the_middle($node, 'pages', 25);
is(run_sql($node, "SELECT rag_drop_source('pages', keep_documents => false)")->{rc}, 0, 'and another one with its documents');
like($sync->finish->{err}, $dropped_meanwhile, 'its sync says so too');
is(ask($node, "SELECT count(*) FROM rag.documents WHERE source = 'pages'"), '0', 'and brings none back');

# -- one document, from two sessions
for my $round (1 .. 5)
{
	my @sessions = map { start_sql($node, "SELECT success, chunks_indexed FROM rag_add_document(repeat('Text $round of session $_. ', 15), 'the-uri')") } 1 .. 4;
	@results = map { $_->finish } @sessions;
	is(join(' ', map { $_->{out} } @results), 't|1 t|1 t|1 t|1', 'four sessions add a document of the same uri') or diag(map { $_->{err} } @results);
	like(stored($node), qr/\A0\n0\n/, 'which has the chunks of one of them');
}
is(ask($node, "SELECT count(*), sum(chunk_count) FROM rag.documents WHERE uri = 'the-uri'"), '1|1', 'one document is there in the end');
is(ask($node, "SELECT count(*), bool_and(c.content = btrim(d.content)) FROM rag.chunks c JOIN rag.documents d USING (document_id) WHERE c.uri = 'the-uri'"),
	'1|t', 'with the chunks of one of them');

# -- what others see meanwhile
forget_collection($node);
my $incomplete = "SELECT count(*) FROM rag.documents d WHERE d.status = 'active'
	AND d.chunk_count <> (SELECT count(*) FROM rag.chunks c WHERE c.collection = d.collection AND c.document_id = d.document_id)";
my ($looks, $seen) = (0, 0);
$sync = start_sql($node, "SELECT rag_sync('docs')");
while ($sync->is_waiting)
{
	$looks++;
	$seen += ask($node, $incomplete);
	ask($node, "SELECT count(*) FROM rag_search(NULL, top_k => 50, query_embedding => (SELECT embedding FROM rag.chunks LIMIT 1))");
}
is($sync->finish->{rc}, 0, "a sync that is watched $looks times");
is($seen, 0, 'shows whole documents only');

# -- the extension itself
forget_collection($node);
create_pages();
$sync = RagHold::begin_in_the_middle($node, 'pages', 25);
my $dropped = run_sql($node, 'DROP EXTENSION rag CASCADE');
is($dropped->{rc}, 0, 'the extension is dropped while a sync runs') or diag($dropped->{err});
error_like($sync->finish, '55000', 'another session needs the database without runs', undef, 'who waits for it is told so');
await('the runner and its processes have ended', sub { !engines($node, 'ingest')
	&& ask($node, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'rag runner'") eq '0' });
RagHold::release('middle');
same_cluster($witness, 'the extension is dropped while a sync runs');
$node->safe_psql('postgres', 'CREATE EXTENSION rag');
create_folder_source($node, 'docs', $folder);
sync_ok($node, 'docs', 'and once created again it works');
is(stored($node), $clean, 'from nothing');

$node->stop;
done_testing();
