# For tests of runs: sources that fail, are throttled or are held during a run, due times, and what
# the catalog says of sources and runs. All delays are long; the tests set due times in the catalog.
package RagRuns;

use strict;
use warnings;

use Exporter 'import';
use JSON::PP qw(decode_json);
use RagCluster;
use RagHold ();
use RagWorkers qw(status_of);
use Test::More;

our @EXPORT = qw(
  runs_node create_folder create_held held_spec
  status condition reason run_id attempts_of definition documents
  becomes source_becomes run_becomes retry_delay_is_valid
  make_due wake_scheduler await_scheduler_pass);

# The node and the folder of the source "marker".
my ($node, $folder);

# Returns a node with two slots for runs, and a folder with two documents, which the source "marker"
# reads.
sub runs_node
{
	my ($name) = @_;
	RagHold::origin();
	$node = rag_node($name, scheduler => 1, conf => <<'CONF');
rag.retry_delay = '15min'
rag.max_running_syncs = 2
rag.allowed_private_hosts = '127.0.0.1'
max_worker_processes = 20
CONF
	$node->safe_psql('postgres', "SELECT rag_embed('hello')");
	$folder = write_documents(temp_folder(), 2, 1);
	create_folder('marker', $folder, ", schedule => '\@yearly'");
	return ($node, $folder);
}

sub create
{
	my ($name, $kind, $spec, $more) = @_;
	return $node->safe_psql('postgres',
		"SELECT rag_create_source('$name', '$kind', '$spec'" . ($more // '') . ')');
}

sub create_folder
{
	my ($name, $path, $more) = @_;
	return create($name, 'folder', qq({"path": "$path"}), $more);
}

# The spec of a source with one web page or more, whose requests can be held.
sub held_spec
{
	my ($name, $count) = @_;
	return sprintf '{"endpoints": [%s]}', join ', ',
	  map { sprintf '"%s/%s/%d.md"', RagHold::origin(), $name, $_ } 1 .. $count // 1;
}

sub create_held
{
	my ($name, $more, $count) = @_;
	return create($name, 'static', held_spec($name, $count), $more);
}

sub status
{
	my ($name, $columns) = @_;
	return ask($node, "SELECT $columns FROM rag.sources WHERE name = '$name'");
}

# Waits until a value, columns of a source, or columns of its last run are as expected.
sub becomes
{
	my ($what, $look, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 2;
	my $seen = '';
	eval {
		await($what, sub { ($seen = $look->()) eq $expected });
	};
	return is($seen, $expected, $name // $what) || diag(status_of($node));
}

sub source_becomes
{
	my ($source, $columns, $expected, $name) = @_;
	return becomes("$source is $expected", sub { status($source, $columns) }, $expected, $name);
}

sub run_becomes
{
	my ($source, $columns, $expected, $name) = @_;
	return becomes(
		"the run of $source is $expected",
		sub { run_row($node, $source, $columns) // '' },
		$expected, $name);
}
sub run_id { return run_row($node, $_[0], 'run_id') }

# Makes runs or retries of sources due now.
sub make_due
{
	my ($column, @names) = @_;
	my $list = join ', ', map { "'$_'" } @names;
	ask($node, "UPDATE rag_internal.source SET $column = clock_timestamp() WHERE name IN ($list)");
	return wake_scheduler();
}
sub wake_scheduler { return ask($node, 'SELECT pg_reload_conf()') }

sub condition
{
	my ($source, $type) = @_;
	my ($found) = grep { $_->{type} eq $type } @{ decode_json(status($source, 'conditions')) };
	return $found;
}
sub reason { return condition(@_)->{reason} }

# The run of this source comes after everything that was due before. So whatever has not started
# when it ends was not going to start.
sub await_scheduler_pass
{
	my $before = status('marker', 'successful_run_count');
	make_due('next_run', 'marker');
	return source_becomes(
		'marker', 'successful_run_count',
		$before + 1,
		'the scheduler has handled everything that was due');
}

sub attempts_of
{
	return ask(
		$node,
		"SELECT coalesce(string_agg(trigger || ' ' || attempt, ', ' ORDER BY run_id), '')
		FROM rag.runs WHERE source = '$_[0]'"
	);
}

# Checks that the delay of the next retry is within its limits after a number of failed attempts.
sub retry_delay_is_valid
{
	my ($source, $attempt) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $most = 900 * 2**($attempt - 1);
	my $delay = ask(
		$node,
		"SELECT extract(epoch FROM s.next_retry - r.finished_at) FROM rag.sources s
		JOIN rag.runs r ON r.run_id = s.last_run_id
		WHERE s.name = '$source'");
	# the delay counts from a moment before finished_at
	ok( $delay > $most / 2 - 30 && $delay <= $most,
		"$source: the retry after attempt $attempt is at most $most s away and at least half of "
		  . "that") or diag("$delay s");
	return;
}

# Definition and documents of a source, to compare them later.
sub definition
{
	return ask(
		$node,
		"SELECT kind, spec, collection, schedule, suspend, max_retries, generation, uid
		FROM rag.sources WHERE name = '$_[0]'"
	);
}

sub documents
{
	return ask(
		$node,
		"SELECT coalesce(string_agg(collection || ' ' || regexp_replace(uri, '.*/', ''), ', '
		ORDER BY collection, uri), '') FROM rag.documents
		WHERE coalesce(source, former_source) = '$_[0]'"
	);
}

1;
