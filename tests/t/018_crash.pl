# The server crashes during a sync: its engine processes go with it, and after recovery the next
# sync does the rest.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagHold ();

my $spec = RagHold::files_between_pages(write_documents(temp_folder(), 40, 8), 'middle');
my $node = rag_node('crash', conf => "rag.allowed_private_hosts = '127.0.0.1'");
$node->safe_psql('postgres', "SELECT rag_create_source('docs', 'static', '$spec')");
sync_ok($node, 'docs', 'an undisturbed sync');
my $clean = stored($node);
like($clean, qr/\A0\n0\n43\|\w+\n323\|/, 'stores all documents with all their chunks');

# The processes of the server: they work in its data directory.
sub processes { return grep { (readlink("$_/cwd") // '') eq $node->data_dir } glob '/proc/[0-9]*' }

my %crash = (
	'an immediate shutdown' => sub { $node->stop('immediate') },
	'SIGKILL of the postmaster' => sub { $node->kill9 });

for my $how (sort keys %crash)
{
	forget_collection($node);
	my $sync = RagHold::begin_in_the_middle($node, 'docs', 21);
	# the last record that is sure to be there after recovery
	$node->safe_psql('postgres', 'SELECT pg_switch_wal()');
	is(ask($node, 'SELECT count(*) FROM rag.progress'), '1', "$how meets a sync in the middle");
	$crash{$how}->();
	isnt($sync->finish->{rc}, 0, "$how ends the session that waits for it");
	RagHold::release('middle');
	await("all processes of the server have ended: $how", sub { !processes() });
	pass('no engine is left over');
	# as long as nobody has waited for the dead postmaster it looks alive to the next one
	unlink $node->data_dir . '/postmaster.pid', $node->host . '/.s.PGSQL.' . $node->port . '.lock';

	$node->start;
	cmp_ok($node->safe_psql('postgres', "SELECT count(*) FROM rag.documents WHERE status = 'active'"), '>=', 21,
		'documents that were stored stay');
	like(stored($node), qr/\A0\n0\n/, 'each of them whole');
	sync_ok($node, 'docs', 'the next sync finishes');
	is(stored($node), $clean, 'and leaves the state of an undisturbed one');
	is($node->safe_psql('postgres', "SELECT count(*) FROM rag.runs WHERE phase = 'Running'"), '0', 'no run is left');
	is($node->safe_psql('postgres', "SELECT phase, errors -> 0 ->> 'sqlstate' FROM rag.runs ORDER BY run_id DESC OFFSET 1 LIMIT 1"),
		'Failed|57P01', 'the one that crashed is Failed');
	is($node->safe_psql('postgres', "SELECT phase, error_run_count > 0 FROM rag.sources"), 'Completed|t', 'the source is well again');
}

# a backend that crashes takes the others along, and the postmaster starts them anew, with another
# engine
$node->append_conf('postgresql.conf', 'restart_after_crash = on');
$node->reload;
forget_collection($node);
my $engine = engine_pid($node, 'embed');
my $victim = session($node);
my $pid = $victim->query('SELECT pg_backend_pid()');
my $sync = RagHold::begin_in_the_middle($node, 'docs', 21);
kill 'KILL', $pid;
isnt($sync->finish->{rc}, 0, 'the crash of a backend ends the sessions');
RagHold::release('middle');
await('the server works again', sub { !is_running($engine) && run_sql($node, "SELECT rag_embed('hello')")->{rc} == 0 });
is(scalar(() = engines($node, 'embed')), 1, 'after the crash of a backend one engine runs');
is_deeply([ engines($node, 'ingest') ], [], 'and none of the run that was lost');
sync_ok($node, 'docs', 'the next sync finishes');
is(stored($node), $clean, 'and leaves the state of an undisturbed one');

$node->stop;
done_testing();
