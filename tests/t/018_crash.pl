# The server crashes during a sync. The engine processes end with it, and the next sync after
# recovery indexes the rest.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagHold ();

my $spec = RagHold::files_between_pages(write_documents(temp_folder(), 40, 8), 'middle');
my $node = rag_node('crash', conf => "rag.allowed_private_hosts = '127.0.0.1'
wal_level = replica
max_wal_senders = 5");
$node->safe_psql('postgres', "SELECT rag_create_source('docs', 'static', '$spec')");
sync_ok($node, 'docs', 'an undisturbed sync succeeds');
my $clean = stored($node);
like($clean, qr/\A0\n0\n43\|\w+\n323\|/,
	'an undisturbed sync stores all documents with all their chunks');

# Processes of the server: their working directory is the data directory.
sub processes
{
	return grep { (readlink("$_/cwd") // '') eq $node->data_dir } glob '/proc/[0-9]*';
}

my %crash = (
	'an immediate shutdown' => sub { $node->stop('immediate') },
	'SIGKILL of the postmaster' => sub { $node->kill9 });

for my $how (sort keys %crash)
{
	forget_collection($node);
	my $sync = RagHold::start_sync_and_hold($node, 'docs', 21);
	# the last record that certainly exists after recovery
	$node->safe_psql('postgres', 'SELECT pg_switch_wal()');
	is(ask($node, 'SELECT count(*) FROM rag.progress'), '1', "a sync is in progress before $how");
	$crash{$how}->();
	isnt($sync->finish->{rc}, 0, "the session that waits for the sync ends with $how");
	RagHold::release('middle');
	await("all processes of the server have ended: $how", sub { !processes() });
	pass("no engine remains after $how");
	# a dead postmaster looks alive to the next one until its parent has waited for it
	unlink $node->data_dir . '/postmaster.pid', $node->host . '/.s.PGSQL.' . $node->port . '.lock';

	$node->start;
	cmp_ok(
		$node->safe_psql('postgres', "SELECT count(*) FROM rag.documents WHERE status = 'active'"),
		'>=', 21, "documents stored before $how are kept");
	like(stored($node), qr/\A0\n0\n/, "documents stored before $how have all their chunks");
	sync_ok($node, 'docs', "the next sync completes after $how");
	is(stored($node), $clean,
		"the next sync after $how leaves the same state as an undisturbed sync");
	is($node->safe_psql('postgres', "SELECT count(*) FROM rag.runs WHERE phase = 'Running'"),
		'0', "no run is Running after $how");
	# the session that waits may end first, and cancels its run
	like(
		$node->safe_psql(
			'postgres',
			"SELECT phase, errors -> 0 ->> 'sqlstate' FROM rag.runs ORDER BY run_id DESC OFFSET 1
				LIMIT 1"
		),
		qr/^Failed\|(?:57P01|57014)$/,
		"the run interrupted by $how is Failed");
	is($node->safe_psql('postgres', "SELECT phase, error_run_count > 0 FROM rag.sources"),
		'Completed|t', "the source is Completed after $how");
}

# a backend that crashes ends the others, and the postmaster starts them again with another engine
$node->append_conf('postgresql.conf', 'restart_after_crash = on');
$node->reload;
forget_collection($node);
my $engine = engine_pid($node, 'embed');
my $victim = session($node);
my $pid = $victim->query('SELECT pg_backend_pid()');
my $sync = RagHold::start_sync_and_hold($node, 'docs', 21);
kill 'KILL', $pid;
isnt($sync->finish->{rc}, 0, 'the crash of a backend ends the sessions');
RagHold::release('middle');
await('the server works again',
	sub { !is_running($engine) && run_sql($node, "SELECT rag_embed('hello')")->{rc} == 0 });
is(scalar(() = engines($node, 'embed')), 1, 'one engine runs after the crash of a backend');
is_deeply([ engines($node, 'ingest') ],
	[], 'no ingest process remains after the crash of a backend');
is_deeply([ working_folders($node) ],
	[], 'no working folder remains of a run that has no next one');
sync_ok($node, 'docs', 'the next sync completes after the crash of a backend');
is(stored($node), $clean,
	'the next sync after the crash of a backend leaves the same state as an undisturbed sync');

# a base backup during a run has its working folder
forget_collection($node);
$sync = RagHold::start_sync_and_hold($node, 'docs', 21);
is(scalar(() = working_folders($node)), 1, 'a run has a working folder');
$node->backup('during');
RagHold::release('middle');
$sync->finish;
my $restored = PostgreSQL::Test::Cluster->new('restored');
$restored->init_from_backup($node, 'during');
is(scalar(() = working_folders($restored)), 1, 'a base backup has the working folder');
$restored->start;
is_deeply([ working_folders($restored) ], [], 'the server of the backup removes it');
$restored->stop;
$node->stop;

sub working_folders { my ($server) = @_; return glob $server->data_dir . '/pg_rag/work/*' }

done_testing();
