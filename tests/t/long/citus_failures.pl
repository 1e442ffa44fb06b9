# Servers with shards, and their coordinator, that are killed in the middle of what needs them:
# nothing is lost or doubled, the error says what happened, the next run completes, and no prepared
# transaction and no shard is left behind.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCitus;
use RagCluster;
use RagProcesses;
use RagTest;

if (my $why = citus_is_missing())
{
	plan skip_all => $why;
}

my ($node, @workers) = citus_nodes('failures', 2);
my $worker = $workers[0];
my $folder = write_documents(temp_folder(), 40, 4);

sub rows { return $node->safe_psql('postgres', $_[0]) }

# -- the state afterwards
# ----------------------------------------

# Ends transactions that a crash left open, as Citus does by itself within a minute, and drops
# shards that nothing refers to.
sub recover
{
	await('all servers answer',
		sub { $node->psql('postgres', 'SELECT * FROM run_command_on_all_nodes($$SELECT 1$$)') == 0 }
	);
	rows('SELECT recover_prepared_transactions()');
	$node->safe_psql('postgres', 'CALL citus_cleanup_orphaned_resources()');
	return;
}

# The tables on a worker that are shards.
sub shards_on
{
	my ($on) = @_;
	return $on->safe_psql('postgres', q{SET citus.override_table_visibility = off;
		SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname IN ('rag', 'rag_internal') AND c.relkind IN ('r', 'p')
			AND c.relname ~ '_1\d{5}$'});
}

sub is_whole
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	recover();
	is(rows(q{WITH c AS MATERIALIZED (
			SELECT document_id, count(*) AS n, count(DISTINCT chunk_id) AS ids FROM rag.chunks
			GROUP BY document_id)
		SELECT count(*) FROM c FULL JOIN rag.documents d USING (document_id)
		WHERE c.n IS DISTINCT FROM nullif(d.chunk_count, 0) OR c.n <> c.ids}),
		'0', "$name: no chunk is lost or doubled");
	is($_->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts'),
		'0', "$name: no prepared transaction is left on " . $_->name)
	  for $node, @workers;
	for my $on (@workers)
	{
		my $port = $on->port;
		is(shards_on($on),
			rows("SELECT count(*) FROM pg_dist_shard_placement WHERE nodeport = $port"),
			"$name: no shard is left on " . $on->name);
	}
	return;
}

# -- failures
# ----------------------------------------

# The shards of a collection on the worker.
sub shards_of
{
	my ($collection) = @_;
	my $port = $worker->port;
	return split /\n/,
	  rows("SELECT shard_name(s.logicalrelid, s.shardid) FROM pg_dist_shard s
		JOIN pg_dist_shard_placement p USING (shardid) WHERE p.nodeport = $port
			AND s.logicalrelid = (SELECT ('rag_internal.' || quote_ident(k.partition))::regclass
				FROM rag_internal.collection k WHERE k.name = '$collection')");
}

# Runs a statement that waits for a lock on the worker, and kills the worker then.
sub killed_during
{
	my ($statement, @tables) = @_;
	my $holder = session($worker);
	$holder->query("SET citus.enable_manual_changes_to_shards = on; BEGIN;
		LOCK TABLE " . join(', ', @tables) . ' IN ACCESS EXCLUSIVE MODE');
	my $running = start_sql($node, $statement);
	await(
		'the worker waits for the lock',
		sub {
			$running->is_waiting or die 'it has ended before';
			$worker->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity
				WHERE application_name LIKE 'citus_internal%' AND wait_event_type = 'Lock'});
		});
	crash($worker);
	return $running->finish;
}

sub phase { return run_row($node, 'papers', 'phase') }

rows(q{SELECT rag_create_collection('kb'), rag_create_collection('other')});
create_folder_source($node, 'papers', $folder, 'kb');
sync_ok($node, 'papers');
rows(q{SELECT rag_add_document('Whales sing in the deep sea.', 'whale', collection => 'other')});
my $search = q{SELECT string_agg(round(score::numeric, 6)::text, ' ' ORDER BY rank)
	FROM rag_search('backup of a cluster', 'kb', mode => 'keyword', top_k => 5)};
my $found = rows($search);

# -- rag_distribute
my $result = killed_during('SELECT rag_distribute()', 'pg_dist_shard');
isnt($result->{rc}, 0, 'rag_distribute fails');
note($result->{err});
is(rows('SELECT count(*) FROM rag_distribution()'), '0', 'nothing is distributed then');
is_whole('rag_distribute');
is(rows($search), $found, 'and searches go on');
rows('SELECT rag_distribute()');
is(rows($search), $found, 'the next one completes');
is_whole('the next rag_distribute');

# -- a search
my @shards = shards_of('kb');
$result = killed_during($search, @shards);
isnt($result->{rc}, 0, 'a search fails');
note($result->{err});
is(rows($search), $found, 'the next one finds the same');

# -- a sync, where it writes, and at any other moment
write_documents($folder, 40, 4, 'b');
$result = killed_during(q{SELECT rag_sync('papers')}, @shards);
note($result->{err});
isnt(phase(), 'Completed', 'a sync fails');
note(run_row($node, 'papers', 'errors'));
is_whole('a sync');
for my $round (1 .. 4)
{
	write_documents($folder, 40, 4, "round $round");
	my $sync = start_sql($node, q{SELECT rag_sync('papers')});
	select undef, undef, undef, 0.4 * $round;
	crash($workers[ $round % 2 ]);
	$sync->finish;
	is_whole("a sync, after $round moments");
}
sync_ok($node, 'papers', 'the next sync');
is(phase(), 'Completed', 'completes');
is(rows(q{SELECT count(*), sum(chunk_count) FROM rag.documents WHERE source = 'papers'}),
	'40|160', 'all documents are there');
is(rows(q{SELECT drifted FROM rag_check_drift('papers')}), 'f', 'and nothing has drifted');
is_whole('the next sync');

# -- a rebuild
$result = killed_during(q{SELECT rag_alter_collection('kb', title_weight => 3);
	CALL rag_rebuild_collection('kb')}, @shards);
note($result->{err});
is_whole('a rebuild');
isnt(rows($search), '', 'searches go on');
rows(q{CALL rag_rebuild_collection('kb')});
is_whole('the next rebuild');
is(rows(q{SELECT count(*) FROM rag_check_shards()}), '0', 'its indexes are whole');

# -- a collection that is dropped
my @of_other = shards_of('other');
$result = killed_during(q{SELECT rag_drop_collection('other')}, @of_other);
isnt($result->{rc}, 0, 'a drop fails');
note($result->{err});
is_whole('a drop');
is(rows(q{SELECT count(*) FROM rag_search('whales', 'other')}),
	'1', 'the collection is still there');
rows(q{SELECT rag_drop_collection('other')});
is_whole('the next drop');

# -- a worker that is away
$worker->stop('immediate');
error_like(run_sql($node, "SELECT rag_add_document('Text of a reef.', 'away', collection => 'kb')"),
	'08006', 'connection to the remote node', undef, 'no document is added without all servers');
is(rows(q{SELECT is_available FROM rag_distribution() WHERE problem LIKE 'unavailable:%'}),
	'f', 'rag_distribution says why');
$worker->start;
is(rows(q{SELECT count(*) FROM rag.documents WHERE uri = 'away'}), '0', 'it is not there');
is_whole('a worker that was away');
rows(q{SELECT rag_add_document('Text of a reef.', 'away', collection => 'kb')});
is(rows(q{SELECT count(*) FROM rag.chunks WHERE uri = 'away'}), '1', 'the next one is');

# -- the coordinator, before it has committed: the worker has prepared, and does not say so
sub adds
{
	return start_sql($node, "SELECT rag_add_document('A text.', '$_[0]', collection => 'kb')");
}

sub await_prepared
{
	return await('a transaction is prepared',
		sub {
			grep { $_->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts') } @workers;
		});
}

for my $on (@workers)
{
	$on->safe_psql('postgres', "ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
	$on->reload;
}
my $adding = adds('before');
await_prepared();
crash($node);
$adding->finish;
for my $on (@workers)
{
	$on->safe_psql('postgres', 'SET synchronous_commit = local;
		ALTER SYSTEM RESET synchronous_standby_names');
	$on->reload;
}
is_whole('a coordinator killed before it commits');
is(rows(q{SELECT count(*) FROM rag.documents WHERE uri = 'before'}),
	'0', 'the document is not there');

# -- and after: its own commit waits for a standby, and the worker has not committed
$node->safe_psql('postgres', "ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
$node->reload;
$adding = adds('after');
await_prepared();
await(
	'the coordinator has committed',
	sub {
		ask($node, q{SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'
			AND query LIKE '%rag_add_document%'});
	});
crash($node);
$adding->finish;
$node->safe_psql('postgres', 'SET synchronous_commit = local;
	ALTER SYSTEM RESET synchronous_standby_names');
$node->reload;
is_whole('a coordinator killed after it has committed');
is(rows(q{SELECT count(*) FROM rag.documents WHERE uri = 'after'}), '1', 'the document is there');
is(rows(q{SELECT count(*) FROM rag.chunks WHERE uri = 'after'}), '1', 'with its chunk');

# -- back
$result = killed_during('SELECT rag_undistribute()', shards_of('kb'));
isnt($result->{rc}, 0, 'rag_undistribute fails');
note($result->{err});
is_whole('rag_undistribute');
isnt(rows('SELECT count(*) FROM rag_distribution()'), '0', 'and chunks stay distributed');
rows('SELECT rag_undistribute()');
is_whole('the next rag_undistribute');

done_testing();
