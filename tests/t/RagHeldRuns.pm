# Runs that are held in a phase until something has been killed, and what must be true afterwards.
package RagHeldRuns;

use strict;
use warnings;
use Exporter 'import';
use Test::More;
use RagCluster;
use RagHold ();
use RagWorkers;

our @EXPORT = qw(held_runs_node begin hold release is_well failed_as);

my ($node, $clean);

# Returns a cluster whose scheduler has synced the sources "docs", which can be held, and "other",
# and a folder with one small document.
sub held_runs_node
{
	my ($name) = @_;
	$node = rag_node($name, scheduler => 1, conf => <<CONF);
max_worker_processes = 20
rag.retry_delay = 100ms
rag.lock_timeout = 10min
rag.successful_runs_history_limit = 1000
rag.failed_runs_history_limit = 1000
rag.allowed_private_hosts = '127.0.0.1'
restart_after_crash = on
log_line_prefix = '%m [%p] %b %d '
CONF
	# more than the batches of texts that are embedded before the first one is stored
	my $spec = RagHold::files_between_pages(write_documents(temp_folder(), 50, 8));
	my $small = write_documents(temp_folder(), 1, 1, 'small');

	$node->safe_psql('postgres', "SELECT rag_create_source('docs', 'static', '$spec')");
	await_true(
		$node, 'postgres',
		"phase = 'Completed' FROM rag.sources WHERE name = 'docs'",
		'a new source is synced automatically');
	$clean = stored($node);
	like($clean, qr/\A0\n0\n52\|\w+\n402\|/,
		'the first run stores all documents with all their chunks');
	$node->safe_psql('postgres', "SELECT rag_create_collection('aside')");
	create_folder_source($node, 'other', $small, 'aside');
	await_true(
		$node, 'postgres',
		"phase = 'Completed' FROM rag.sources WHERE name = 'other'",
		'a second new source is synced automatically');
	return ($node, $small);
}

# Each phase of a run, and how a run is held in it
my $locked;
my %hold = (
	queued => sub {
		configure($node, 'rag.max_running_syncs', 1);
		my $engine = frozen_ingest();
		$node->safe_psql('postgres', "SELECT rag_sync('other', wait => false)");
		await(
			'the run is queued',
			sub {
				ask($node,
					"SELECT waiting ~ 'max_running_syncs' FROM rag.runs WHERE phase = 'Pending'")
				  eq 't';
			});
		return $engine;
	},
	fetching => sub { return frozen_ingest() },
	embedding => sub {
		begin_to_read();
		my $embed = engine_pid($node, 'embed');
		freeze($embed);
		RagHold::release('first');
		# a runner that waits for its source checks the time each second; one that waits for the
		# engine does not
		await_asleep(worker($node, 'runner'), 1.5);
		return $embed;
	},
	storing => sub {
		$locked = session($node);
		$locked->query('BEGIN; LOCK TABLE rag.chunks IN SHARE MODE; SELECT 1');
		begin_to_read();
		RagHold::release('first');
		await(
			'the run waits for the lock',
			sub {
				ask($node,
					"SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'rag runner'
					AND wait_event_type = 'Lock'"
				);
			});
		return;
	});

# Starts a run of "docs", whose engine requests the first page.
sub begin_to_read
{
	RagHold::hold($_) for qw(first last);
	$node->safe_psql('postgres', "SELECT rag_sync('docs', wait => false)");
	return RagHold::await_request('first');
}

sub frozen_ingest
{
	begin_to_read();
	my $engine = engine_pid($node, 'ingest');
	freeze($engine);
	return $engine;
}

# Brings a run of "docs" that has everything to do into a phase. Returns a text for messages and the
# engine that was frozen.
sub hold
{
	my ($phase) = @_;
	all_runs_ended($node, 'postgres', "no run is active before a run is held in the phase $phase");
	forget_collection($node);
	my $frozen = $hold{$phase}->();
	return ($phase, $frozen);
}

sub release
{
	my ($frozen) = @_;
	RagHold::release(qw(first last));
	thaw($frozen) if $frozen && is_running($frozen);
	undef $locked;
	configure($node, 'rag.max_running_syncs')
	  if $node->safe_psql('postgres', 'SHOW rag.max_running_syncs') ne '2';
	return;
}

# Begins a case. Returns the greatest id of the runs before it.
my $before = 0;
sub begin { return $before = ask($node, 'SELECT max(run_id) FROM rag.runs') }

# What must be true in the end, whatever was killed.
sub is_well
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	await_true(
		$node,
		'postgres',
		"bool_and(phase = 'Completed') AND NOT EXISTS (SELECT FROM rag_internal.run
		WHERE phase IN ('Pending', 'Running')) FROM rag.sources WHERE name IN ('docs', 'other')",
		"$name: the work is completed automatically");
	is(stored($node), $clean, "$name: the stored documents are those of an undisturbed sync");
	runs_are_consistent($node, 'postgres', $name);
	await_scheduled($node, 'postgres', "$name: one launcher and no superfluous worker is running");
	return;
}

sub failed_as
{
	my ($sqlstate, $reason, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(
		ask($node,
			"SELECT count(*) > 0 FROM rag.runs WHERE run_id > $before AND source = 'docs'
			AND phase = 'Failed'
		AND errors -> 0 ->> 'sqlstate' = '$sqlstate' AND errors -> 0 ->> 'message' ~ '$reason'"),
		't',
		$name) || diag(status_of($node));
}

1;
