# Servers under load are killed, cut off and damaged, as a seed chooses. After each fault nothing is
# lost, doubled or stale, no search has seen half a document, and nothing is left of what died.
#
# RAG_FAULTS_SEED, RAG_FAULTS and RAG_FAULTS_SUITE set the seed, the number of faults and the suite,
# and RAG_FAULTS_GO_ON goes on after something was wrong: scripts/faults.sh does.
use strict;
use warnings;
use Test::More;

BEGIN
{
	plan(skip_all => 'TOML::Tiny is missing (Debian: libtoml-tiny-perl)')
	  unless eval { require TOML::Tiny; 1 };
}
use RagFaults;

my $seed = $ENV{RAG_FAULTS_SEED} // int(time) % 1_000_000;
my $name = $ENV{RAG_FAULTS_SUITE} // 'short';
my $faults = $ENV{RAG_FAULTS} // 25;
my $folder = (__FILE__ =~ s{[^/]*$}{}r) . '../../faults';
my $suite = { %{ toml('load') }, %{ toml($name) } };

sub toml
{
	my ($of) = @_;
	open my $file, '<', "$folder/$of.toml" or die "$folder/$of.toml: $!";
	my ($content, $error) = TOML::Tiny::from_toml(do { local $/; <$file> });
	die "$of.toml: $error" if $error;
	return $content;
}

# A full disk is a small file system of this process and its children. It needs no right of root
# where users may have namespaces.
if ($suite->{disk} && !$ENV{RAG_FAULTS_DISK})
{
	plan(skip_all => 'unshare cannot make a namespace here')
	  unless system('unshare --user --map-root-user --mount true 2>/dev/null') == 0;
	$ENV{RAG_FAULTS_DISK} = PostgreSQL::Test::Utils::tempdir();
	my $script = 'mount -t tmpfs -o size=$1,mode=0755 faults "$RAG_FAULTS_DISK" && shift &&
		exec unshare --user --map-user=$1 --map-group=$2 "$3" "$4"';
	my ($group) = split / /, $);
	# the namespace's root is this user
	exec 'unshare', '--user', '--map-root-user', '--mount', 'sh', '-c', $script, 'sh',
	  $suite->{disk}, $>, $group, $^X, $0;
}

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
