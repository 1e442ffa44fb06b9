# rag-engine ingest is killed fifty times, at any moment of the syncs of five sources side by side,
# while their folders change. Documents are always stored completely, and in the end the state of
# each equals that of a sync into an empty collection.
use strict;
use warnings;
use Test::More;
use Time::HiRes qw(time usleep);
use RagCluster;

my $wanted = 50;
my $seed = 20261122;
srand $seed;

my $node = rag_node('killed_often', conf => <<CONF);
max_worker_processes = 20
rag.max_running_syncs = 5
CONF
my @sources = map { "docs$_" } 1 .. 5;
my %folder;
for my $source (@sources)
{
	$folder{$source} = write_documents(temp_folder(), 10, 12, $source);
	$node->safe_psql('postgres', "SELECT rag_create_collection('$source')");
	create_folder_source($node, $source, $folder{$source}, $source);
}
my $witness = witness($node);

my $started = time;
sync_ok($node, $_, "an undisturbed sync of $_ succeeds") for @sources;
my $length = time - $started;
like(stored($node, $_), qr/\A0\n0\n10\|/,
	"an undisturbed sync of $_ stores all documents with all their chunks") for @sources;

# Adds, edits, renames and deletes some of the files of a folder.
my $next = 1000;

sub change
{
	my ($folder) = @_;
	my @files = sort glob "$folder/*.md";
	for (1 .. 3)
	{
		my $file = $files[ int rand @files ];
		my $what = int rand 4;
		$next++;
		my $body = join "\n\n", map { paragraph("$next $_") } 1 .. 4;
		if ($what == 0) { write_file("$folder/new-$next.md", "# New $next\n\n$body\n") }
		elsif ($what == 1) { write_file($file, "# Edited $next\n\n$body\n") }
		elsif ($what == 2) { rename $file, "$folder/renamed-$next.md" }
		elsif (@files > 5) { unlink $file }
	}
	return;
}

sub are_over
{
	return ask($node, 'SELECT count(*) = ' . scalar(@_) . " FROM rag.runs WHERE run_id IN ("
		  . join(', ', @_) . ") AND phase NOT IN ('Pending', 'Running')") eq 't';
}

# The longest wait before a kill, in microseconds, for runs that read a few changes and for runs
# that read all. It follows the machine: half of the kills are to come before the run has ended.
my @longest = (20_000, 120_000 * $length);
my ($killed, $torn) = (0, 0);
my $rounds = 0;
while ($killed < $wanted && $rounds++ < 2 * $wanted)
{
	# a few changes are read at once, all documents take a while
	my $all = $rounds % 2;
	for my $source (@sources)
	{
		change($folder{$source});
		forget_collection($node, $source) if $all;
	}
	my @runs = split /\n/,
	  $node->safe_psql('postgres', join '; ',
		map { "SELECT rag_sync('$_', wait => false)" } @sources);
	my %seen;
	while (!are_over(@runs))
	{
		my ($engine) = grep { !$seen{$_} } engines($node, 'ingest');
		usleep(5_000), next if !$engine;
		$seen{$engine} = 1;
		usleep(int(rand($longest[$all])));
		kill 'KILL', $engine;
	}
	my $died = ask($node,
		'SELECT count(*) FROM rag.runs WHERE run_id IN (' . join(', ', @runs) . ")
			AND phase = 'Failed' AND errors -> 0 ->> 'sqlstate' = '08006'");
	$killed += $died;
	$longest[$all] *= $died > @sources / 2 ? 1.5 : 2 / 3;
	$torn += grep { stored($node, $_) !~ /\A0\n0\n/ } @sources;
}
note("seed $seed: $killed runs were killed in $rounds rounds");
cmp_ok($killed, '>=', $wanted, "$wanted runs were killed before they ended");
is($torn, 0, 'all documents have all their chunks after each killed run');
is($node->safe_psql('postgres', "SELECT count(*) FROM rag.runs WHERE phase = 'Running'"),
	'0', 'no run is active');

for my $source (@sources)
{
	sync_ok($node, $source, "the next sync of $source completes");
	my $state = stored($node, $source);
	forget_collection($node, $source);
	sync_ok($node, $source, "a sync of $source into an empty collection succeeds");
	is(stored($node, $source), $state,
		"a sync of $source into an empty collection leaves the same state as the killed runs");
}
is_deeply([ glob $node->data_dir . '/pg_rag/work/*' ], [], 'no folder of a run remains');
same_cluster($witness, 'the engine killed fifty times');

$node->stop;
done_testing();
