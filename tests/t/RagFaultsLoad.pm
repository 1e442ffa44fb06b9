# The load of the fault campaign: clients that write, search and maintain, each a process of its
# own. A client writes into its journal what it did, when, and what became of it.
#
# A line of a journal has tabs between its fields:
#   W  operation  start  end  outcome  key=version ...   a write; a version of "-" is a deletion;
#                                                        "partly": some of them were written
#   R  collection  server  start  end  found             a search, as faults.found() tells
#   E  operation  outcome  SQLSTATE  message             what was refused
# All writes of one line happen together or not at all.
package RagFaultsLoad;

use strict;
use warnings;

use Exporter 'import';
use POSIX ();
use RagCluster;
use RagFaultsSession;
use Time::HiRes qw(time usleep);

our @EXPORT = qw(dice start_clients end_clients);

# A die of its own for each use, so that what one client does depends on nobody else: ->(n) is a
# number from 0 to below n.
sub dice
{
	my ($state) = 1;
	$state = ($state * 31 + ord) % 2147483629 for split //, join ' ', @_;
	my $die = sub {
		my ($n) = @_;
		$state = $state * 48271 % 2147483647 || 1;
		return int($state / 2147483647 * $n);
	};
	$die->(2) for 1 .. 5;
	return $die;
}

# -- what writers do
# ----------------------------------------

# Each gets the client and returns SQL, its output or undef, and the versions that it writes.
my %write = (
	put => sub {
		my ($c) = @_;
		my $uri = "doc/$c->{number}/" . $c->{die}->(6);
		my $v = $c->next_version;
		return (_add($uri, $v), 't', "written:$uri" => $v);
	},
	put_many => sub {
		my ($c) = @_;
		my %v = map { ("doc/$c->{number}/$_" => $c->next_version) } _some($c, 3, 6);
		my $all = join ', ', map {
			"jsonb_build_object('uri', '$_', 'content', faults.text_of('$_', $v{$_}))"
		} sort keys %v;
		return ("SELECT count(*) FROM rag_add_documents(jsonb_build_array($all), 'written')
			WHERE success", scalar keys %v, map { ("written:$_" => $v{$_}) } keys %v);
	},
	# embedded by a model on another server
	put_far => sub {
		my ($c) = @_;
		my $uri = "doc/$c->{number}/" . $c->{die}->(6);
		my $v = $c->next_version;
		return (_add($uri, $v, 'far'), 't', "far:$uri" => $v);
	},
	# two documents in one transaction
	put_two => sub {
		my ($c) = @_;
		my %v = map { ("doc/$c->{number}/$_" => $c->next_version) } _some($c, 2, 6);
		return (join('\;', 'BEGIN', (map { _add($_, $v{$_}) } sort keys %v), 'COMMIT'),
			join("\n", ('t') x keys %v), map { ("written:$_" => $v{$_}) } keys %v);
	},
	given => sub {
		my ($c) = @_;
		my $uri = "given/$c->{number}/" . $c->{die}->(3);
		# the number of its chunks stays
		my $v = $c->next_version(3);
		return ("SELECT rag_upsert_chunks(jsonb_agg(jsonb_build_object('chunk_id', '$uri#' || i,
				'uri', '$uri', 'text', faults.part_of('$uri', $v, i))), 'written',
				skip_existing => false) FROM generate_series(1, faults.parts($v)) AS i",
			2 + $v % 3, "written:$uri" => $v);
	},
	remove => sub {
		my ($c) = @_;
		my $uri = "doc/$c->{number}/" . $c->{die}->(6);
		return ("SELECT rag_delete_document(document_id, 'written') FROM rag.documents
			WHERE collection = 'written' AND uri = '$uri'", undef, "written:$uri" => '-');
	},
	queue => sub {
		my ($c) = @_;
		my $uri = "queue/$c->{number}/" . $c->{die}->(2);
		my $v = $c->next_version;
		return ("SELECT rag_enqueue_document(faults.text_of('$uri', $v), '$uri',
			collection => 'written') > 0", 't', "written:$uri" => $v);
	},
	undone => sub {
		my ($c) = @_;
		my $uri = "doc/$c->{number}/" . $c->{die}->(6);
		my $v = $c->next_version;
		return (join('\;', 'BEGIN', _add($uri, $v), 'ROLLBACK'), 't');
	},
	row => sub {
		my ($c) = @_;
		my $id = $c->{number} * 100 + $c->{die}->(40);
		my $v = $c->next_version;
		return ("SELECT faults.put($id, $v)", '', "row:$id" => $v);
	},
	rows => sub {
		my ($c) = @_;
		my %v = map { ($c->{number} * 100 + $_ => $c->next_version) } _some($c, 12, 40);
		my @puts = map { "SELECT faults.put($_, $v{$_})" } sort keys %v;
		return (join('\;', 'BEGIN', @puts, 'COMMIT'),
			undef, map { ("row:$_" => $v{$_}) } keys %v);
	},
	delete_rows => sub {
		my ($c) = @_;
		my @ids = map { $c->{number} * 100 + $_ } _some($c, 4, 40);
		return ('DELETE FROM faults.item WHERE id IN (' . join(', ', @ids) . ')', '',
			map { ("row:$_" => '-') } @ids);
	},
	undone_rows => sub {
		my ($c) = @_;
		return (join('\;', 'BEGIN', (map { sprintf 'SELECT faults.put(%d, %d)',
				$c->{number} * 100 + $_, $c->next_version } _some($c, 8, 40)), 'ROLLBACK'), undef);
	},
	article => sub {
		my ($c) = @_;
		my $id = $c->{number} * 100 + $c->{die}->(5);
		my $v = $c->next_version;
		return ("INSERT INTO faults.article VALUES ($id, $v, faults.text_of('article-$id', $v))
			ON CONFLICT (id) DO UPDATE SET version = excluded.version, body = excluded.body",
			'', "article:$id" => $v);
	},
	delete_article => sub {
		my ($c) = @_;
		my $id = $c->{number} * 100 + $c->{die}->(5);
		return ("DELETE FROM faults.article WHERE id = $id", '', "article:$id" => '-');
	});

sub _add
{
	my ($uri, $v, $collection) = @_;
	$collection //= 'written';
	return "SELECT success FROM rag_add_document(faults.text_of('$uri', $v), '$uri',
		collection => '$collection')";
}

# Some different numbers from 0 to below n, at most $most of them.
sub _some
{
	my ($c, $most, $n) = @_;
	my %some = map { ($c->{die}->($n) => 1) } 1 .. $most;
	return sort { $a <=> $b } keys %some;
}

# -- what the owner does
# ----------------------------------------

my %own = (
	vacuum => sub { 'VACUUM faults.item' },
	vacuum_chunks => sub { 'VACUUM rag.chunks' },
	analyze => sub { 'ANALYZE faults.item' },
	reindex => sub { "REINDEX INDEX CONCURRENTLY faults.item_" . ('v', 'body')[ $_[0]{die}->(2) ] },
	merge => sub { "SELECT rag_bm25_merge('faults.item_body')" },
	rebuild => sub {
		sprintf "SELECT rag_alter_collection('written', chunk_size => %d);
			CALL rag_rebuild_collection('written')", 100 + $_[0]{die}->(10);
	},
	bundle => sub {
		my ($c) = @_;
		my $path = "$c->{bundle_folder}/bundle-$c->{round}-" . ++$c->{bundles};
		my $of = ('written', 'files', 'repo')[ $c->{die}->(3) ];
		return "SELECT documents >= 0 FROM rag_export_collection('$of', '$path');
			SELECT rag_drop_collection('copy') FROM rag.collections WHERE name = 'copy';
			SELECT collection FROM rag_import_collection('$path', 'copy')";
	},
	checkpoint => sub { 'CHECKPOINT' },
	drift => sub { "SELECT count(*) FROM rag_check_drift('files')" },
	clear_cache => sub { 'SELECT rag_clear_embedding_cache()' });

# -- clients
# ----------------------------------------

my @modes = qw(vector keyword hybrid);

# Kinds of clients: what each does next.
my %client = (
	writer => sub {
		my ($c) = @_;
		my $name = _choose($c, $c->{suite}{load}, \%write) // 'row';
		my ($sql, $expected, %versions) = $write{$name}->($c);
		my $start = time;
		my ($outcome, $output, $state) = $c->{session}->run($sql);
		return $c->rest($name, $outcome, $state, $output) if $outcome eq 'away';
		my $is_as_expected = !defined $expected || $output eq $expected || $outcome ne 'done';
		# a document that was refused is a row that says so, and keeps its contents
		$outcome = 'partly' if !$is_as_expected && $name =~ /^put/;
		$c->note('W', $name, $start, time, $outcome,
			join ' ', map { "$_=$versions{$_}" } sort keys %versions)
		  if %versions;
		$c->note('E', $name, 'odd', $state, $output) if !$is_as_expected;
		return $c->rest($name, $outcome, $state, $output);
	},
	searcher => sub {
		my ($c) = @_;
		my @of = (qw(written written files repo pages articles), $c->{suite}{far} ? 'far' : ());
		my $of = $of[ $c->{die}->(scalar @of) ];
		my $mode = $modes[ $c->{die}->(3) ];
		my $filter = 'NULL';
		if ($of eq 'written' && $c->{die}->(3) == 0)
		{
			my $uri = sprintf 'doc/%d/%d', 1 + $c->{die}->($c->{writers}), $c->{die}->(6);
			$filter = qq('{"uri": "$uri"}');
		}
		my $start = time;
		my ($outcome, $output, $state) =
		  $c->{session}->run("SELECT faults.found('$of', '$mode', $filter)");
		$c->note('R', $filter eq 'NULL' ? $of : "$of, one", $c->{on}, $start, time, $output)
		  if $outcome eq 'done';
		return $c->rest("search $mode", $outcome, $state, $output);
	},
	owner => sub {
		my ($c) = @_;
		my $name = _choose($c, $c->{suite}{owner}, \%own) // 'vacuum';
		my ($outcome, $output, $state) = $c->{session}->run($own{$name}->($c));
		return $c->rest($name, $outcome, $state, $output);
	},
	# changes what sources read, and syncs them
	sources => sub {
		my ($c) = @_;
		my $name = ('files', 'repo', 'pages')[ $c->{die}->(3) ];
		$c->{origins}->change($name, $c->{die}, $c->next_version);
		my ($outcome, $output, $state) = $c->{session}->run("SELECT rag_sync('$name') > 0");
		return $c->rest("sync $name", $outcome, $state, $output);
	});

sub _choose
{
	my ($c, $weights, $all) = @_;
	my @names = grep { $all->{$_} } sort keys %$weights;
	my $sum = 0;
	$sum += $weights->{$_} for @names;
	my $at = $c->{die}->($sum || 1);
	for my $name (@names)
	{
		$at -= $weights->{$name};
		return $name if $at < 0;
	}
	return;
}

sub next_version
{
	my ($c, $step) = @_;
	$c->{version} += $step // 1;
	$c->{version}++ while $step && $c->{version} % $step;
	return $c->{version};
}

# Notes what was refused, and waits if the server is away.
sub rest
{
	my ($c, $name, $outcome, $state, $output) = @_;
	$c->note('E', $name, $outcome, $state, ($output =~ /((?:ERROR|FATAL|PANIC):.*)/)[0] // $output)
	  if $outcome ne 'done' && $outcome ne 'away';
	usleep($outcome eq 'away' ? 100_000 : 1000 * (10 + $c->{die}->(60)));
	return;
}

sub note
{
	my ($c, @fields) = @_;
	print { $c->{journal} } join("\t", map { s/\s+/ /gr } @fields), "\n";
	return;
}

# Starts the clients of a round. Takes a hash: primary, standby (may be undef), suite, seed, round,
# folder (for journals), origins (what sources read).
sub start_clients
{
	my (%round) = @_;
	my $suite = $round{suite};
	unlink "$round{folder}/stop", glob "$round{folder}/journal-*";
	my @all = map { [ 'writer', $_ ] } 1 .. $suite->{writers};
	push @all, map { [ 'searcher', $_ ] } 1 .. $suite->{searchers};
	push @all, [ 'owner', 1 ], [ 'sources', 1 ];
	push @all, [ 'searcher', 'standby' ] if $round{standby};
	return map { _start(\%round, @$_) } @all;
}

sub _start
{
	my ($round, $kind, $number) = @_;
	my $pid = fork // die "no process: $!";
	return $pid if $pid;
	$SIG{TERM} = $SIG{INT} = 'DEFAULT';
	my $parent = getppid;
	my $path = "$round->{folder}/journal-$kind-$number";
	open my $journal, '>', $path or POSIX::_exit(1);
	$journal->autoflush;
	my $is_there = $number eq 'standby';
	my $c = bless {
		%$round, kind => $kind, number => $number, journal => $journal,
		writers => $round->{suite}{writers},
		die => dice($round->{seed}, $round->{round}, $kind, $number),
		version => $round->{round} * 1000,
		on => $is_there ? 'standby' : 'primary'
	}, __PACKAGE__;
	$c->{session} = RagFaultsSession->new($is_there ? $round->{standby} : $round->{primary},
		name => "faults-$kind");
	eval {
		$client{$kind}->($c)
		  until -e "$round->{folder}/stop" || getppid != $parent;
		1;
	} or $c->note('E', $kind, 'died', '', $@);
	$c->{session}->close;
	POSIX::_exit(0);
}

# Ends the clients once each has the answer to its statement.
sub end_clients
{
	my ($folder, @pids) = @_;
	write_file("$folder/stop", '');
	local ($?, $!);
	waitpid $_, 0 for @pids;
	return;
}

1;
