# Sessions with very large texts do not use up memory and processor: the engine stays within its
# limit and answers other queries meanwhile. Work of sessions that have left stops.
use strict;
use warnings;
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;
use Time::HiRes qw(time);
use RagCluster;

my $node = rag_node('load');
$node->safe_psql('postgres',
	'CREATE ROLE busy LOGIN IN ROLE rag_reader; CREATE ROLE other LOGIN IN ROLE rag_reader');
my $hello = "SELECT rag_functions.vector_dims(rag_embed('hello'))";
$node->safe_psql('postgres', $hello);
my $embed = engine_pid($node, 'embed');
my $witness = witness($node);

sub peak
{
	my ($pid) = @_;
	return slurp_file("/proc/$pid/status") =~ /^VmHWM:\s+(\d+) kB/m ? $1 / 1024 : 0;
}

# The maximum memory of the engine and the processes that it starts, in MB. Pages that several of
# them share count once.
my $most = 0;

sub measure
{
	my $sum = 0;
	for my $pid ($embed, map { (split)[0] } children_of($embed))
	{
		$sum +=
		  (eval { slurp_file("/proc/$pid/smaps_rollup") } // '') =~ /^Pss:\s+(\d+) kB/m
		  ? $1 / 1024
		  : 0;
	}
	$most = $sum if $sum > $most;
	return;
}

my $before = peak($embed);
my @heavy = (
	("SELECT rag_functions.vector_dims(rag_embed(repeat('a.', 2000000)))") x 4,
	(   "SELECT array_length(rag_embed(ARRAY(SELECT repeat('ab cd', 100000)
		FROM generate_series(1, 60))), 1)"
	) x 4,
	("SELECT count(*) FROM rag_split(repeat('ab cd ', 2500000), 'text')") x 4);
my @sessions = map { start_sql($node, $_, user => 'busy') } @heavy;
my ($answered, $slowest) = (0, 0);
my $reader = session($node);
$reader->query('SET SESSION AUTHORIZATION other');
while (grep { $_->is_waiting } @sessions)
{
	my $started = time;
	last if $reader->query($hello) ne '384';
	my $took = time - $started;
	measure();
	next unless grep { $_->is_waiting } @sessions;
	$answered++;
	$slowest = $took if $took > $slowest;
}
my @results = map { $_->finish } @sessions;
is( join(' ', map { $_->{rc} } @results),
	join(' ', (0) x 12),
	'twelve concurrent sessions get their embeddings') or diag(map { $_->{err} } @results);
is(join(' ', map { $_->{out} } @results[ 0, 4 ]),
	'384 60', 'twelve concurrent sessions get complete results');
cmp_ok($answered, '>', 0, 'another session gets answers meanwhile');
cmp_ok($most, '>', 50, 'the memory of the engine can be read');
cmp_ok($most, '<', 1500, 'the memory of the engine stays within its limit');
is(engine_pid($node, 'embed'), $embed, 'the engine is not restarted under load');
diag(
	sprintf
	  'queries: %d, the slowest took %.2f s; memory: %d MB before, %d MB at most, %d MB the peak '
	  . 'of embed alone',
	$answered, $slowest, $before, $most, peak($embed));

# a text that is too long for any session
error_like(
	run_sql($node, "SELECT rag_embed(repeat('a', 5000000))"),
	'54000', 'a text is too long',
	'Split the text', 'a text that is too long is rejected');

# -- work that no session waits for
# ----------------------------------------

my $splitting =
  start_sql($node, "SELECT count(*) FROM rag_split(repeat('ab cd ', 10000000), 'text')");
my $backend = $splitting->backend;
await(
	'a process splits',
	sub {
		grep { !/Z/ } children_of($embed);
	});
ask($node, "SELECT pg_cancel_backend($backend)");
error_like($splitting->finish, '57014', 'user request', undef, 'a large text is cancelled');
await('nothing of it goes on', sub { !children_of($embed) });
my $waiting = start_sql($node,
	"SELECT rag_embed(ARRAY(SELECT repeat('ab cd ', 80000) FROM generate_series(1, 2000)))");
$waiting->await_waiting;
ask($node, 'SELECT pg_cancel_backend(' . $waiting->backend . ')');
error_like($waiting->finish, '57014', 'user request', undef, 'many large texts are cancelled');
is( $node->safe_psql(
		'postgres', "SELECT rag_functions.vector_dims((rag_embed(ARRAY['hello']))[1])"),
	'384',
	'the next call succeeds after cancelled texts');
same_cluster($witness, 'sessions with large texts');

# a loop of queries does not block bulk work
my @loops = map {
	start_sql(
		$node,
		"DO \$\$ BEGIN LOOP PERFORM rag_embed('text ' || clock_timestamp()); END LOOP; END \$\$",
		user => 'busy')
} 1 .. 4;
$_->backend for @loops;
create_folder_source($node, 'docs', write_documents(temp_folder(), 4, 4));
sync_ok($node, 'docs', 'a sync completes while queries never stop');
is($node->safe_psql('postgres', $hello),
	'384', 'a query of another session completes while queries never stop');
ask($node, 'SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE usename = \'busy\'');
is( join(' ', map { $_->finish->{err} =~ /57014/ ? 'cancelled' : 'ended' } @loops),
	join(' ', ('cancelled') x 4),
	'the never-ending queries can be cancelled');

$node->stop;
done_testing();
