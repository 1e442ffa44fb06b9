# rag_rebuild_collection is cancelled, killed and met by writers: searches use the former storage
# until the end, and nothing is lost, doubled or left behind. The engine is stopped here, so that a
# rebuild waits for it.
use strict;
use warnings;
use Test::More;
use RagCluster;

my $node = rag_node('rebuild');
my $folder = write_documents(temp_folder(), 12, 6);
$node->safe_psql(
	'postgres', "SELECT rag_create_collection('books');
	SELECT rag_create_source('docs', 'folder', '{\"path\": \"$folder\"}', 'books',
		schedule => '\@yearly');
	SELECT rag_sync('docs');
	SELECT rag_add_document('Bread is baked in the morning.', 'bread',
		collection => 'books')");
my $witness = witness($node);
my $chunks = "SELECT count(*) || ' ' || count(DISTINCT document_id) FROM rag.chunks
	WHERE collection = 'books'";
my $found = "SELECT uri FROM rag_search('bread', 'books', top_k => 1, mode => 'keyword')";
my $relations = "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
	WHERE nspname = 'rag_internal' AND relkind = 'r' AND relname ~ '^rag_(kb|rebuild)_books'";

# Starts a rebuild that waits for the engine.
sub waiting_rebuild
{
	my $embed = engine_pid($node, 'embed');
	freeze($embed);
	my $call = start_sql($node, "CALL rag_rebuild_collection('books')");
	$call->await_waiting;
	return ($call, $embed);
}

my $before = ask($node, $chunks);
ask($node, "SELECT rag_alter_collection('books', chunk_size => 80, chunk_overlap => 0)");
my ($call, $embed) = waiting_rebuild();
is(ask($node, $chunks), $before, 'the former chunks are in use during a rebuild');
is(ask($node, $found), 'bread', 'a search answers during a rebuild');
error_like(run_sql($node, "CALL rag_rebuild_collection('books')"),
	'55006', 'is being rebuilt by another session', undef, 'a second rebuild is refused');
ask($node, 'SELECT pg_cancel_backend(' . $call->backend . ')');
error_like($call->finish, '57014', 'canceling statement', undef, 'a rebuild can be cancelled');
thaw($embed);
is(ask($node, $chunks), $before, 'a cancelled rebuild leaves the former chunks');
is(ask($node, "SELECT state FROM rag_collection_status('books')"),
	'stale', 'the collection is stale');

($call, $embed) = waiting_rebuild();
crash($node);
$call->finish;
is(ask($node, $chunks), $before, 'a crash leaves the former chunks');
is(ask($node, $found), 'bread', 'a search answers after a crash');

# writers during a rebuild: one document changes, one comes, one goes
run_sql($node, "SELECT rag_embed('start')");
($call, $embed) = waiting_rebuild();
my $gone = ask($node,
	"SELECT document_id FROM rag.documents WHERE collection = 'books' AND source IS NOT NULL
	 ORDER BY uri LIMIT 1");
ask($node, "SELECT rag_delete_document('$gone')");
thaw($embed);
# a session that began before the storage was replaced tries again
my $added;
do
{
	$added = run_sql($node,
		"SELECT rag_add_document('Rolls are baked at noon.', 'rolls', collection => 'books')");
} while ($added->{err} =~ /40001/);
is($call->finish->{rc}, 0, 'a rebuild ends while others write');
is($added->{rc}, 0, 'a document can be added during a rebuild') or diag($added->{err});
is(ask($node, "SELECT count(*) FROM rag.chunks WHERE document_id = '$gone'"),
	'0', 'a document that was removed during a rebuild is gone');
is( ask($node, "SELECT count(*) FROM rag.documents d
		WHERE collection = 'books' AND chunk_count <> (
			SELECT count(*) FROM rag.chunks c WHERE c.document_id = d.document_id)"),
	'0',
	'each document has its chunks once');
is(ask($node, "SELECT count(*) FROM rag.chunks WHERE uri = 'rolls'"),
	'1', 'a document that was added during a rebuild is there');
is(ask($node, "SELECT max(length(content)) <= 80 FROM rag.chunks WHERE collection = 'books'
		AND uri <> 'rolls'"), 't', 'the chunks have the new size');
is(ask($node, $relations), '1', 'nothing is left of the former storage');
is(ask($node, 'SELECT count(*) FROM rag_internal.rebuild'), '0', 'no rebuild is left');

# a long transaction that reads chunks: the rebuild gives up, and the next one only replaces
$node->append_conf('postgresql.conf', "rag.lock_timeout = '1s'");
$node->reload;
my $reader = session($node);
$reader->query('BEGIN');
$reader->query('SELECT count(*) FROM rag.chunks');
error_like(run_sql($node, "CALL rag_rebuild_collection('books')"),
	'55P03', 'could not replace the storage', 'call rag_rebuild_collection again',
	'a rebuild gives up if others use the chunks');
$reader->query('COMMIT');
is(run_sql($node, "CALL rag_rebuild_collection('books')")->{rc}, 0, 'the next rebuild ends');
is(ask($node, $relations), '1', 'one partition is left');
is(ask($node, "SELECT state FROM rag_collection_status('books')"), 'ready', 'the state is ready');

# within a partition that others share, nobody has to be kept out
ask($node, q{SELECT rag_create_retriever('shared',
		'{"storageConfig": {"indexStrategy": {"mode": "fixed"}}}')});
ask($node, "SELECT rag_create_collection('$_', retriever => 'shared');
	SELECT rag_add_document(repeat('Bread is baked in the morning. ', 20), 'bread',
		collection => '$_')") for qw(one two);
my $sizes = "SELECT string_agg(collection || ' ' || few, ', ' ORDER BY 1) FROM (
	SELECT collection, count(*) < 4 AS few FROM rag.chunks
	WHERE partition = 'rag_documents' GROUP BY 1) c";
is(ask($node, $sizes), 'one true, two true', 'two collections share a partition');
ask($node, "SELECT rag_alter_collection('one', chunk_size => 80, chunk_overlap => 0)");
$reader->query('BEGIN');
$reader->query('SELECT count(*) FROM rag.chunks');
is(run_sql($node, "CALL rag_rebuild_collection('one')")->{rc},
	0, 'a rebuild within a shared partition does not wait for readers');
is(ask($node, $sizes), 'one false, two true', 'it has replaced the chunks of its collection');
$reader->query('COMMIT');

# a rebuild queues for the end of all writers: each joins them before it locks anything else
for my $case (
	[ 'adds a document',
		"rag_add_document('Rolls are baked at noon.', 'new', collection => 'one')" ],
	[ 'gives chunks', q{rag_upsert_chunks('[{"chunk_id":
		"00000000-0000-0000-0000-000000000001", "uri": "given", "text": "Tea is hot."}]', 'one')} ],
	[ 'removes a document', "rag_delete_document(document_id) FROM rag.documents
		WHERE collection = 'one' AND uri = 'bread'" ])
{
	my ($what, $call) = @$case;
	$reader->query('BEGIN');
	$reader->query("SELECT $call");
	is( ask($node, q{SELECT mode FROM pg_locks WHERE locktype = 'object' AND objsubid = 1
			AND classid = 'rag_internal.collection'::regclass
				AND objid = rag_internal.source_hash('one')::oid}),
		'ShareLock', "a session that $what is among the writers");
	my $rebuild = start_sql($node, "CALL rag_rebuild_collection('one')");
	await('the rebuild waits', sub { ask($node, q{SELECT count(*) FROM pg_locks
		WHERE NOT granted AND objsubid = 1 AND mode = 'ExclusiveLock'}) ne '0' });
	$reader->query('COMMIT');
	is($rebuild->finish->{rc}, 0, "a rebuild ends after a session that $what");
}
is(ask($node, "SELECT string_agg(DISTINCT uri, ' ' ORDER BY uri) FROM rag.chunks
		WHERE collection = 'one'"), 'given new', 'what they have written is there');
undef $reader;

# -- searches that wait for the former storage while it is dropped. Nobody is in a deadlock.
$node->safe_psql(
	'postgres', q{
	SELECT rag_create_collection('three');
	SELECT rag_add_document('Tea is hot.', 'tea', collection => 'three');
	-- the rebuild goes on when four readers wait
	CREATE FUNCTION pause() RETURNS event_trigger LANGUAGE plpgsql AS $$BEGIN
		WHILE (SELECT count(*) FROM pg_locks
			WHERE NOT granted AND mode = 'AccessShareLock') < 4 LOOP
			PERFORM pg_sleep(0.01);
		END LOOP;
	END$$;
	CREATE EVENT TRIGGER pause ON sql_drop EXECUTE FUNCTION pause()});
my $partition = ask($node, "SELECT partition FROM rag_collection_status('three')");
my $rebuild = start_sql($node, "SELECT rag_alter_collection('three', chunk_size => 90);
	CALL rag_rebuild_collection('three')");
await('the rebuild drops the storage', sub { ask($node, "SELECT count(*) FROM pg_locks
	WHERE granted AND relation = '$partition'::regclass AND mode = 'AccessExclusiveLock'")
	eq '1' });
my @searches = map {
	start_sql($node, "SELECT uri FROM rag_search('tea', $_, top_k => 1)")
} "'three', mode => 'vector'", "'three', mode => 'keyword'", "'three', mode => 'hybrid'",
  "ARRAY['three', 'default'], mode => 'hybrid'";
is($rebuild->finish->{rc}, 0, 'the rebuild ends');
for my $search (@searches)
{
	my $result = $search->finish;
	is($result->{out}, 'tea', 'a search that has waited for the former storage reads the new one')
	  or diag($result->{err});
}
$node->stop;
done_testing();
