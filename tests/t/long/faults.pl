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
my ($suite, $error) = TOML::Tiny::from_toml(do {
	open my $file, '<', "$folder/$name.toml" or die "$folder/$name.toml: $!";
	local $/;
	<$file>;
});
die "$name.toml: $error" if $error;

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
done_testing();
