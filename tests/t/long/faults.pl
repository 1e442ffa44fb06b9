# Servers under load are killed, cut off and damaged, as a seed chooses. After each fault nothing is
# lost, doubled or stale, no search has seen half a document, and nothing is left of what died.
#
# RAG_FAULTS_SEED, RAG_FAULTS and RAG_FAULTS_SUITE set the seed, the number of faults and the suite,
# and RAG_FAULTS_GO_ON goes on after something was wrong: scripts/faults.sh does.
use strict;
use warnings;
use Test::More;

my ($suite, $name);

BEGIN
{
	plan(skip_all => 'TOML::Tiny is missing (Debian: libtoml-tiny-perl)')
	  unless eval { require TOML::Tiny; 1 };
	$name = $ENV{RAG_FAULTS_SUITE} // 'short';
	my $folder = (__FILE__ =~ s{[^/]*$}{}r) . '../../faults';
	for my $of ('load', $name)
	{
		open my $file, '<', "$folder/$of.toml" or die "$folder/$of.toml: $!";
		my ($content, $error) = TOML::Tiny::from_toml(do { local $/; <$file> });
		die "$of.toml: $error" if $error;
		$suite = { %{ $suite // {} }, %$content };
	}
	# A full disk is a small file system of this process and its children. Users may make one where
	# they may have namespaces. PostgreSQL's modules are loaded afterwards: they redirect output.
	if ($suite->{disk} && !$ENV{RAG_FAULTS_DISK})
	{
		plan(skip_all => 'unshare cannot make a namespace here')
		  unless system('unshare --user --map-root-user --mount true 2>/dev/null') == 0;
		mkdir($ENV{RAG_FAULTS_DISK} = "$ENV{TESTDIR}/disk") or die $!;
		# root of the namespace is this user
		my $script = 'mount -t tmpfs -o size=$1,mode=0755 faults "$RAG_FAULTS_DISK" && shift &&
			exec unshare --user --map-user=$1 --map-group=$2 "$3" "$4"';
		my ($group) = split / /, $);
		exec 'unshare', '--user', '--map-root-user', '--mount', 'sh', '-c', $script, 'sh',
		  $suite->{disk}, $>, $group, $^X, $0;
	}
}
use RagFaults;

my $seed = $ENV{RAG_FAULTS_SEED} // int(time) % 1_000_000;
my $faults = $ENV{RAG_FAULTS} // 25;

note("replay: scripts/faults.sh --seed $seed --faults $faults --suite $name");
my $campaign = eval { RagFaults->new(seed => $seed, name => $name, suite => $suite) }
  or BAIL_OUT($@);
for (1 .. $faults)
{
	next if $campaign->round;
	diag("replay: scripts/faults.sh --seed $seed --faults $_ --suite $name");
	last if !$ENV{RAG_FAULTS_GO_ON};
}
$campaign->report;
$campaign->stop;
# a file system in memory ends with the test
system('cp', '-R', $ENV{RAG_FAULTS_DISK}, "$ENV{RAG_FAULTS_DISK}.kept")
  if $ENV{RAG_FAULTS_DISK} && !Test::More->builder->is_passing;
done_testing();
