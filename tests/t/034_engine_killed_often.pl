# rag-engine ingest is killed fifty times, at any moment of a sync, while the folder changes.
# Documents are always stored completely, and in the end the state equals that of a sync into an
# empty collection.
use strict;
use warnings;
use Test::More;
use Time::HiRes qw(time usleep);
use RagCluster;

my $wanted = 50;
my $seed = 20261122;
srand $seed;

my $node = rag_node('killed_often');
my $folder = write_documents(temp_folder(), 40, 12);
create_folder_source($node, 'docs', $folder);
my $witness = witness($node);

my $started = time;
sync_ok($node, 'docs', 'an undisturbed sync succeeds');
my $length = time - $started;
like(stored($node), qr/\A0\n0\n40\|/,
	'an undisturbed sync stores all documents with all their chunks');

# Adds, edits, renames and deletes some of the files.
my $next = 1000;

sub change
{
	my @files = sort glob "$folder/*.md";
	for (1 .. 6)
	{
		my $file = $files[ int rand @files ];
		my $what = int rand 4;
		$next++;
		my $body = join "\n\n", map { paragraph("$next $_") } 1 .. 4;
		if ($what == 0) { write_file("$folder/new-$next.md", "# New $next\n\n$body\n") }
		elsif ($what == 1) { write_file($file, "# Edited $next\n\n$body\n") }
		elsif ($what == 2) { rename $file, "$folder/renamed-$next.md" }
		else { unlink $file }
	}
	return;
}

sub is_over
{
	return ask($node, "SELECT count(*) FROM rag.runs WHERE run_id = $_[0] AND phase <> 'Running'");
}

# The longest wait before the kill, in microseconds, for runs that read a few changes and for runs
# that read all. It follows the machine: half of the kills are to come before the run has ended.
my @longest = (20_000, 600_000 * $length);
my ($killed, $torn) = (0, 0);
my $rounds = 0;
while ($killed < $wanted && $rounds++ < 10 * $wanted)
{
	# a few changes are read at once, all documents take a while
	change();
	my $all = $rounds % 2;
	forget_collection($node) if $all;
	my $run = $node->safe_psql('postgres', "SELECT rag_sync('docs', wait => false)");
	my ($engine) = await('the run has begun, or is over',
		sub { my ($pid) = engines($node, 'ingest'); $pid || is_over($run) && 'none' });
	if ($engine ne 'none')
	{
		usleep(int(rand($longest[$all])));
		kill 'KILL', $engine;
	}
	await('the run is over', sub { is_over($run) });
	my $is_killed = ask(
		$node,
		"SELECT count(*) FROM rag.runs WHERE run_id = $run AND phase = 'Failed'
			AND errors -> 0 ->> 'sqlstate' = '08006'"
	);
	$killed += $is_killed;
	$longest[$all] *= $is_killed ? 1.5 : 2 / 3;
	$torn++ if stored($node) !~ /\A0\n0\n/;
}
note("seed $seed: $killed of $rounds runs were killed");
is($killed, $wanted, "$wanted runs were killed before they ended");
is($torn, 0, 'all documents have all their chunks after each killed run');
is($node->safe_psql('postgres', "SELECT count(*) FROM rag.runs WHERE phase = 'Running'"),
	'0', 'no run is active');

sync_ok($node, 'docs', 'the next sync completes');
my $state = stored($node);
forget_collection($node);
sync_ok($node, 'docs', 'a sync into an empty collection succeeds');
is(stored($node), $state,
	'a sync into an empty collection leaves the same state as the killed runs');
is_deeply([ glob $node->data_dir . '/pg_rag/work/*' ], [], 'no folder of a run remains');
same_cluster($witness, 'the engine killed fifty times');

$node->stop;
done_testing();
