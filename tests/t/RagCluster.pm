# For tests that cause failures: folders of documents, statements that run in the background, and
# checks of the state afterwards.
package RagCluster;

use strict;
use warnings;

use Carp;
use Exporter 'import';
use File::Basename qw(dirname);
use File::Path qw(make_path);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RagProcesses;
use RagTest ();
use Test::More;

our @EXPORT = (
	@RagProcesses::EXPORT,
	qw(
	  rag_node configure create_folder_source temp_folder write_file write_documents paragraph
	  ask session witness same_cluster crash await_phase
	  start_sql run_sql error_like sync_ok run_row stored forget_collection));

# -- clusters
# ----------------------------------------

# Returns a running node whose database "postgres" has the extension. Options: preload => 0,
# scheduler => 1, conf => 'lines', initdb => [...].
sub rag_node
{
	my ($name, %option) = @_;
	my $node = RagTest::new_node(
		$name,
		preload => $option{preload} // 1,
		scheduler => $option{scheduler},
		initdb => $option{initdb});
	$node->append_conf('postgresql.conf', $option{conf}) if defined $option{conf};
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION rag');
	return $node;
}

# Changes a setting of the whole server, or resets it if there is no value. New sessions have it
# afterwards.
sub configure
{
	my ($node, $name, $value) = @_;
	my $loaded = $node->safe_psql('postgres', 'SELECT pg_conf_load_time()');
	# without preload the settings exist once the library is loaded
	my $change = defined $value ? "SET $name = '$value'" : "RESET $name";
	$node->safe_psql('postgres', "LOAD 'rag'; ALTER SYSTEM $change");
	$node->reload;
	await("$name is set",
		sub { $node->safe_psql('postgres', 'SELECT pg_conf_load_time()') ne $loaded });
	return;
}

sub create_folder_source
{
	my ($node, $name, $folder, $collection) = @_;
	$collection //= 'default';
	$node->safe_psql('postgres',
		qq{SELECT rag_create_source('$name', 'folder', '{"path": "$folder"}', '$collection')});
	return;
}

# A psql that stays open: ->query answers one query after another. (BackgroundPsql would log each,
# and some are repeated hundreds of times.)
sub session { return RagCluster::Psql->new(@_) }

# Runs a query in a session that is kept for the node, which is fast enough to be repeated. Returns
# the result.
my %asking;

sub ask
{
	my ($node, $query) = @_;
	my $kept = $asking{ $node->name };
	if (!defined $kept or $kept->{start} ne start_of($node) or $kept->{session}{over})
	{
		$kept = $asking{ $node->name } = { start => start_of($node), session => session($node) };
	}
	return $kept->{session}->query($query);
}

# Distinguishes starts of the server.
sub start_of
{
	my ($node) = @_;
	return (split /\n/, RagProcesses::slurp($node->data_dir . '/postmaster.pid'))[0] // '';
}

my $who = 'SELECT pg_backend_pid(), pg_postmaster_start_time()';

# Returns a session and the start time of the cluster, for same_cluster().
sub witness
{
	my ($node) = @_;
	my $session = session($node);
	return { session => $session, before => $session->query($who) };
}

# Checks that the cluster has not restarted and the session of the witness still works.
sub same_cluster
{
	my ($witness, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $now = $witness->{session}->query($who);
	return is($now, $witness->{before},
		"$name: the cluster did not restart and another session still works");
}

# -- documents
# ----------------------------------------

my @words =
  qw(key server backup index query table vacuum replica cluster restore signing rotate engine
  folder commit branch deploy window lease shard tenant ledger beacon harbor meadow copper violet
  thunder lantern orchard glacier cinder parcel ribbon saddle timber walnut zephyr anchor basket
  candle dolphin ember falcon garnet hazel iris jasper);

# About 900 characters that are unique for the seed, in a chunk of their own. Most words are too
# long for the model's vocabulary, one token each: much to read and to store, little to embed.
sub paragraph
{
	my ($seed) = @_;
	my $state = 0;
	$state = ($state * 31 + ord) % 2147483647 for split //, "seed $seed";
	my $text = "Paragraph $seed:";
	for (1 .. 8)
	{
		$state = ($state * 48271 + 11) % 2147483647;
		$text .= ' ' . $words[ $state % @words ];
	}
	$text .= ' ' . ('x' x 110) for 1 .. 7;
	return "$text.";
}

sub temp_folder
{
	my $folder = PostgreSQL::Test::Utils::tempdir();
	chmod 0755, $folder;
	return $folder;
}

sub write_file
{
	my ($path, $content) = @_;
	make_path(dirname($path));
	open my $file, '>:raw', $path or croak "$path: $!";
	print $file $content;
	close $file or croak "$path: $!";
	return $path;
}

# Writes doc-001.md to doc-<count>.md with a number of chunks each. Returns the folder.
sub write_documents
{
	my ($folder, $count, $chunks, $seed) = @_;
	$seed //= 'a';
	for my $i (1 .. $count)
	{
		my $body = join "\n\n", map { paragraph("$seed $i $_") } 1 .. $chunks;
		write_file(sprintf('%s/doc-%03d.md', $folder, $i), "# Document $seed $i\n\n$body\n");
	}
	return $folder;
}

# Waits until a number of documents of a source are stored. Returns their number.
sub await_stored
{
	my ($node, $source, $count) = @_;
	$count //= 1;
	my $query = "SELECT count(*) FROM rag.documents WHERE source = '$source' AND status = 'active'";
	return await("$source has stored $count documents",
		sub { my $n = ask($node, $query); $n >= $count && $n });
}

# -- statements
# ----------------------------------------

# Starts statements in a session of their own; ->finish returns the result. Options: database, user.
sub start_sql { return RagCluster::Session->new(@_) }

# Runs statements. Returns psql's exit code {rc}, its output {out}, its messages {err} and the time
# {seconds}.
sub run_sql { return start_sql(@_)->finish }

# Checks that the result is an error with this SQLSTATE, and that message and HINT match the
# patterns.
sub error_like
{
	my ($result, $sqlstate, $message, $hint, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @missing;
	push @missing, "SQLSTATE $sqlstate"
	  unless $result->{err} =~ /(?:ERROR|FATAL):  \Q$sqlstate\E: /;
	push @missing, "message $message" unless $result->{err} =~ /(?:ERROR|FATAL):  .*(?:$message)/;
	push @missing, "hint $hint" if defined $hint and $result->{err} !~ /^HINT:  .*(?:$hint)/m;
	return is(join(', ', @missing), '', $name) || diag($result->{out} . $result->{err});
}

# Kills the postmaster and then all its processes. Starts the server again, which recovers.
sub crash
{
	my ($node) = @_;
	$node->kill9;
	my $processes = sub {
		grep { (readlink("/proc/$_/cwd") // '') eq $node->data_dir }
		  map { m{(\d+)$} } glob '/proc/[0-9]*';
	};
	await('all processes of the server have ended',
		sub { my @pids = $processes->(); kill 'KILL', @pids; !@pids });
	# a dead postmaster looks alive to the next one until its parent has waited for it
	unlink $node->data_dir . '/postmaster.pid', $node->host . '/.s.PGSQL.' . $node->port . '.lock';
	$node->start;
	return;
}

# Waits until a session (start_sql) is in a phase of pg_stat_progress_<kind>, and stops it there.
# Returns the backend's process id.
sub await_phase
{
	my ($session, $kind, $phase) = @_;
	my $pid = $session->backend;
	await(
		"the session is $phase",
		sub {
			$session->is_waiting or croak "it has ended before";
			return ask($session->{node},
				"SELECT phase LIKE '%$phase%' FROM pg_stat_progress_$kind WHERE pid = $pid") eq 't';
		});
	freeze($pid);
	return $pid;
}

# Syncs a source and waits. Returns the id of the run.
sub sync_ok
{
	my ($node, $source, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $result = run_sql($node, "SELECT rag_sync('$source')");
	is($result->{rc}, 0, $name // "$source is synced") or diag($result->{err});
	return $result->{out};
}

# Columns of the last run of a source.
sub run_row
{
	my ($node, $source, $columns) = @_;
	return ask($node,
		"SELECT $columns FROM rag.runs WHERE source = '$source' ORDER BY run_id DESC LIMIT 1");
}

# Everything that is stored of a collection and does not depend on when or how often it was indexed.
# The first two lines count documents without all their chunks and chunks without document: always
# 0.
sub stored
{
	my ($node, $collection, $database) = @_;
	$collection //= 'default';
	return $node->safe_psql($database // 'postgres', <<SQL);
SELECT count(*) FROM rag.documents d WHERE d.collection = '$collection' AND d.status = 'active'
    AND d.chunk_count <> (SELECT count(*) FROM rag.chunks c WHERE c.collection = d.collection
    AND c.document_id = d.document_id);
SELECT count(*) FROM rag.chunks c WHERE c.collection = '$collection'
    AND NOT EXISTS (SELECT FROM rag.documents d WHERE d.document_id = c.document_id
    AND d.collection = c.collection);
SELECT count(*), md5(string_agg(d::text, '' ORDER BY d)) FROM (
    SELECT document_id, source, uri, title, status, content_hash, md5(content), chunk_count,
    metadata FROM rag.documents
    WHERE collection = '$collection') d;
SELECT count(*), md5(string_agg(c::text, '' ORDER BY c)) FROM (
    SELECT chunk_id, document_id, chunk_index, start_index, md5(content), embedding_key
    FROM rag.chunks
    WHERE collection = '$collection') c;
SQL
}

# Deletes the contents of a collection by SQL, and what is cached, so that the next sync indexes and
# embeds everything.
sub forget_collection
{
	my ($node, $collection) = @_;
	$collection //= 'default';
	$node->safe_psql(
		'postgres', "DELETE FROM rag.chunks WHERE collection = '$collection';
		DELETE FROM rag.documents WHERE collection = '$collection';
		SELECT rag_clear_embedding_cache()");
	return;
}

package RagCluster::Psql;

use Carp;
use IPC::Open2;

sub new
{
	my ($class, $node) = @_;
	my @command = (
		$node->installed_command('psql'), '--no-psqlrc',
		'--no-align', '--tuples-only',
		'--quiet', '--dbname',
		$node->connstr('postgres'), '--file',
		'-');
	my $pid = open2(my $from, my $to, @command);
	$to->autoflush;
	return bless { pid => $pid, from => $from, to => $to }, $class;
}

# The output of a query, or the part of it that psql printed before it or the server ended. The test
# ends if the server does not answer at all.
sub query
{
	my ($self, $query) = @_;
	local $SIG{PIPE} = 'IGNORE';
	local $SIG{ALRM} = sub { kill 'KILL', $self->{pid}; croak "no answer to $query" };
	alarm $RagProcesses::LONGEST_WAIT;
	my $answer = $self->_answer($query);
	alarm 0;
	return $answer;
}

sub _answer
{
	my ($self, $query) = @_;
	print { $self->{to} } "$query;\n\\echo -- end of answer\n";
	my $answer = '';
	while (defined(my $line = readline $self->{from}))
	{
		if ($line eq "-- end of answer\n")
		{
			chomp $answer;
			return $answer;
		}
		$answer .= $line;
	}
	$self->{over} = 1;
	chomp $answer;
	return $answer;
}

sub DESTROY
{
	my ($self) = @_;
	local ($?, $!);
	close $self->{to};
	close $self->{from};
	waitpid $self->{pid}, 0;
	return;
}

package RagCluster::Session;

use Carp;
use File::Temp ();
use IPC::Run;
use Time::HiRes qw(time);

my $count = 0;

sub new
{
	my ($class, $node, $sql, %option) = @_;
	my $name = sprintf 'rag-test-%d', ++$count;
	my $self = bless { node => $node, name => $name, out => '', err => '', started => time },
	  $class;
	# a file: a psql that finds no server ends before it has read a pipe, which would end the test
	$self->{in} = File::Temp->new;
	print { $self->{in} } "$sql\n;\n\\q\n";
	$self->{in}->close;
	my $connection =
		$node->connstr($option{database} // 'postgres')
	  . " application_name=$name"
	  . (defined $option{user} ? " user=$option{user}" : '');
	my @command = (
		$node->installed_command('psql'), '--no-psqlrc',
		'--no-align', '--tuples-only',
		'--quiet', '--set',
		'ON_ERROR_STOP=1', '--set',
		'VERBOSITY=verbose', '--dbname',
		$connection, '--file',
		'-');
	$self->{harness} = IPC::Run::start(\@command, '<', $self->{in}->filename,
		'>', \$self->{out}, '2>', \$self->{err}, IPC::Run::timeout($RagProcesses::LONGEST_WAIT));
	$self->{harness}->pump_nb;
	return $self;
}

# Waits until the backend is active. Returns its process id.
sub backend
{
	my ($self) = @_;
	return $self->{backend} //= RagCluster::await(
		"$self->{name} is at work",
		sub {
			$self->is_waiting or croak "$self->{name} has ended: $self->{out}$self->{err}";
			RagCluster::ask(
				$self->{node},
				"SELECT pid FROM pg_stat_activity WHERE application_name = '$self->{name}'
				AND state = 'active'"
			);
		});
}

# Waits until the session waits for rag-engine or for a run.
sub await_waiting { return _await_event($_[0], "wait_event = 'Extension'") }

# Waits until the session waits for a lock of another one.
sub await_locked { return _await_event($_[0], "wait_event_type = 'Lock'") }

sub _await_event
{
	my ($self, $event) = @_;
	my $pid = $self->backend;
	RagCluster::await(
		"$self->{name} waits: $event",
		sub {
			RagCluster::ask($self->{node}, "SELECT $event FROM pg_stat_activity WHERE pid = $pid")
			  eq 't';
		});
	return $pid;
}

# True while psql is running.
sub is_waiting
{
	my ($self) = @_;
	# a psql that has just ended cannot be pumped
	eval { $self->{harness}->pump_nb; 1 } or $@ =~ /ended prematurely/ or die $@;
	return $self->{harness}->pumpable;
}

# Waits until psql has ended. Returns the result.
sub finish
{
	my ($self) = @_;
	eval { $self->{harness}->finish; 1 } or croak "$self->{name} did not end: $@";
	chomp(my $out = $self->{out});
	return {
		rc => $self->{harness}->result(0),
		out => $out,
		err => $self->{err},
		seconds => time - $self->{started}
	};
}

1;
