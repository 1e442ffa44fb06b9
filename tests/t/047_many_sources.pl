# Two hundred sources in two databases become due at the same minute. Each is synced once, never
# more at a time than allowed, and sessions that call rag_sync meanwhile get a slot.
use strict;
use warnings;
use List::Util qw(max);
use Test::More;
use RagCluster;
use RagHold ();

my $each = 100;
RagHold::origin();
my $node = rag_node('many', scheduler => 1, conf => <<'CONF');
rag.max_running_syncs = 2
rag.fair_wait = '1h'
rag.allowed_private_hosts = '127.0.0.1'
max_worker_processes = 30
CONF
for my $database (qw(other holding))
{
	$node->safe_psql('postgres', "CREATE DATABASE $database");
	$node->safe_psql($database, 'CREATE EXTENSION rag');
}
my @databases = qw(postgres other);
my @holds = qw(hold-1 hold-2);
$node->safe_psql(
	'holding',
	sprintf
	  q{SELECT rag_create_source('%1$s', 'static', '{"endpoints": ["%2$s"]}', schedule => '@yearly',
		suspend => true); SELECT rag_resume('%1$s')},
	$_,
	RagHold::page($_)) for @holds;
my $folder = temp_folder();
write_file("$folder/source-$_/doc.md", "# Document $_\n\nText number $_.\n") for 1 .. $each;
for my $database (@databases)
{
	$node->safe_psql(
		$database, "SELECT rag_embed('hello');
		SELECT rag_create_source('source-' || i, 'folder',
		format('{\"path\": \"$folder/source-%s\"}', i)::jsonb, schedule => '\@yearly',
		suspend => true)
		FROM generate_series(1, $each) i;
		SELECT rag_resume('source-' || i) FROM generate_series(1, $each) i");
}

sub in_all
{
	my ($query) = @_;
	return map { $node->safe_psql($_, $query) } @databases;
}

sub await_in_all
{
	my ($what, $query) = @_;
	return await(
		$what,
		sub {
			!grep { $_ ne 't' } in_all($query);
		});
}

# Takes all slots with runs in another database, until those are released.
sub take_all_slots
{
	for my $hold (@holds)
	{
		RagHold::hold($hold);
		$node->safe_psql('holding', "SELECT rag_sync('$hold', wait => false)");
		RagHold::await_request($hold);
	}
	return;
}

# The maximum number of runs in progress at the same time, in all databases.
sub max_concurrent_runs
{
	my ($after) = @_;
	my @moments = map { my ($begin, $end) = split /\|/; [ $begin, 1 ], [ $end, -1 ] }
	  map { split /\n/ } in_all(
		"SELECT extract(epoch FROM started_at), extract(epoch FROM finished_at) FROM rag.runs
		WHERE started_at IS NOT NULL AND queued_at >= '$after'");
	my ($now, $most) = (0, 0);
	# if one run ends when another starts, the end comes first
	for my $moment (sort { $a->[0] <=> $b->[0] || $a->[1] <=> $b->[1] } @moments)
	{
		$most = max($most, $now += $moment->[1]);
	}
	return $most;
}

# Checks the runs since a time. Also prints how long they waited, and whether some failed and were
# retried.
sub each_ran_once
{
	my ($after, $trigger, $limit) = @_;
	for my $database (@databases)
	{
		is( $node->safe_psql(
				$database,
				"SELECT count(*), count(DISTINCT source), bool_and(phase = 'Completed')
				FROM rag.runs
			WHERE queued_at >= '$after' AND trigger = '$trigger' AND source LIKE 'source-%'"),
			"$each|$each|t",
			"$database: each source is synced once");
		my $others = $node->safe_psql(
			$database, "SELECT run_id, source, trigger, attempt, phase, errors FROM rag.runs
			WHERE queued_at >= '$after' AND source LIKE 'source-%'
			AND (phase <> 'Completed' OR trigger <> '$trigger')"
		);
		diag("$database: $others") if $others ne '';
	}
	my $most = max_concurrent_runs($after);
	cmp_ok($most, '<=', $limit, 'runs in progress never exceed rag.max_running_syncs');
	cmp_ok($most, '>', 1, 'several runs are in progress at once');
	my @delays = sort { $a <=> $b } map { split /\n/ } in_all(
		"SELECT extract(epoch FROM started_at - '$after'::timestamptz) FROM rag.runs
		WHERE queued_at >= '$after' AND trigger = '$trigger'");
	diag(
		sprintf '%d runs (%s), %d at a time: from due to start p50 %.2f s, p99 %.2f s',
		scalar @delays,
		$trigger, $limit, @delays[ int(@delays * 0.5), int(@delays * 0.99) ]);
	return;
}

sub now { return $node->safe_psql('postgres', 'SELECT clock_timestamp()') }

# Makes all sources due now, as if the minute had come.
sub make_due
{
	my $moment = now();
	in_all("UPDATE rag_internal.source SET next_run = '$moment'");
	$node->reload;
	return $moment;
}

subtest 'all sources are due at once' => sub {
	take_all_slots();
	my $moment = make_due();
	await_in_all(
		'all wait, and say why', qq{SELECT count(*) = $each FROM rag.runs
		WHERE phase = 'Pending'
		AND waiting = 'too many runs in progress (rag.max_running_syncs = 2)'}
	);
	pass('queued runs report why they wait');
	is(join(' ', in_all("SELECT count(*) FROM rag.sources WHERE phase = 'Pending'")),
		"$each $each", 'sources with queued runs are Pending');

	# the last source in its queue
	my $asking = start_sql($node, "SELECT rag_sync('source-99')");
	$asking->await_waiting;
	RagHold::release(@holds);
	my $asked = $asking->finish;
	is($asked->{rc}, 0, 'rag_sync starts a run while others wait') or diag($asked->{err});
	await_in_all(
		'all have run',
		"SELECT count(DISTINCT source) = $each FROM rag.runs WHERE queued_at >= '$moment'
		AND phase = 'Completed'"
	);
	my $later = $node->safe_psql(
		'postgres', "SELECT count(*) FROM rag.runs
		WHERE started_at > (SELECT finished_at FROM rag.runs WHERE source = 'source-99')");
	cmp_ok($later, '>', 0, 'other runs still wait after rag_sync');
	each_ran_once($moment, 'schedule', 2);
	is( join(
			' ',
			in_all(
				"SELECT count(*) FILTER (WHERE phase = 'Completed' AND next_scheduled_run > now())
				FROM rag.sources"
			)),
		"$each $each",
		'all sources are Completed and have a next run');
};

subtest 'a higher limit, and a second round' => sub {
	configure($node, 'rag.max_running_syncs', 4);
	my $moment = make_due();
	await_in_all(
		'all have run again',
		"SELECT count(DISTINCT source) = $each FROM rag.runs WHERE queued_at >= '$moment'
		AND phase = 'Completed'"
	);
	each_ran_once($moment, 'schedule', 4);
};

subtest 'rag_sync_all with many sources' => sub {
	configure($node, 'rag.max_running_syncs', 2);
	take_all_slots();
	my $moment = now();
	my @queued = in_all('SELECT count(*), count(DISTINCT run_id) FROM rag_sync_all()');
	is("@queued", "$each|$each $each|$each", 'rag_sync_all queues all sources');
	like(
		run_sql($node, "SELECT count(*) FROM rag_sync_all()")->{err},
		qr/is already queued/,
		'a second rag_sync_all returns the same queued runs');
	RagHold::release(@holds);
	await_in_all('all have run',
		"SELECT count(*) FILTER (WHERE phase IN ('Pending', 'Running')) = 0 FROM rag.runs");
	is( join(
			' ',
			in_all(
				"SELECT count(*) >= $each, count(DISTINCT source) = $each,
				bool_and(phase = 'Completed') FROM rag.runs
		WHERE queued_at >= '$moment' AND trigger = 'manual'")),
		't|t|t t|t|t',
		'all queued runs complete');
	cmp_ok(max_concurrent_runs($moment), '<=', 2, 'runs in progress never exceed the higher limit');
};

is(join(' ', in_all("SELECT count(*) FROM rag.runs WHERE phase IN ('Pending', 'Running')")),
	'0 0', 'no run is active in the end');
is( join(' ',
		in_all("SELECT count(*), sum(chunk_count) FROM rag.documents WHERE status = 'active'")),
	"$each|$each $each|$each",
	'every document is stored once');
is( join(
		' ',
		in_all(
			"SELECT count(*) FROM rag.runs a JOIN rag.runs b ON a.run_id < b.run_id
			AND a.source = b.source
	AND a.finished_at > b.started_at AND b.finished_at > a.started_at")),
	'0 0',
	'no two runs of a source overlap');
$node->stop;
done_testing();
