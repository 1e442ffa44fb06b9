# What is checked after each fault of the campaign. Each check returns what is wrong as
# [kind, text]; kinds are lost, doubled, stale, broken (an index), left (a process, file, lock or
# run) and late.
package RagFaultsChecks;

use strict;
use warnings;

use Exporter 'import';
use RagCluster;
use Time::HiRes qw(time usleep);

our @EXPORT = qw(checks_of settle);

# Collections whose documents are whole, and are found.
sub _collections
{
	my ($campaign) = @_;
	return (qw(written files repo pages articles), $campaign->{suite}{far} ? 'far' : ());
}

# Longest time until everything is quiet and in sync again, in seconds. A queued document whose
# process was lost is tried again after one minute, and times are compared with the clock at least
# every two minutes.
our $LONGEST = 240;

# Waits until a query returns a value. Returns what is wrong if that never happens.
sub _becomes
{
	my ($session, $query, $expected, $what) = @_;
	my $until = time + $LONGEST;
	my $last = '';
	while (time < $until)
	{
		my ($outcome, $output) = $session->run($query);
		$last = $output;
		if ($outcome eq 'done' && $output eq $expected)
		{
			my $waited = time + $LONGEST - $until;
			print sprintf "waited %.1f s for %s\n", $waited, $what if $waited > 5;
			return;
		}
		usleep(30_000);
	}
	return [ 'left', "$what: $last instead of $expected" ];
}

# Waits until nothing of the load is left, and all sources are as what they read.
sub settle
{
	my ($campaign) = @_;
	my $session = $campaign->{session};
	my @wrong = _becomes($session, "SELECT count(*) FROM pg_stat_activity
		WHERE application_name LIKE 'faults-%' AND pid <> pg_backend_pid()", 0, 'sessions');
	push @wrong, _becomes($session, q{SELECT count(*) FROM rag.queued_documents
		WHERE ended_at IS NULL}, 0, 'queued documents');
	push @wrong, _becomes($session, q{SELECT count(*) FROM rag_internal.table_change}, 0,
		'noted changes of a table');
	push @wrong, _becomes($session, q{SELECT count(*) FROM rag.runs
		WHERE phase IN ('Pending', 'Running')}, 0, 'runs in progress');
	for my $source (qw(files repo pages))
	{
		my ($outcome, $output) = $session->run("SELECT rag_sync('$source') > 0");
		push @wrong, [ 'late', "$source cannot be synced: $output" ]
		  if $outcome ne 'done' || $output !~ /^t$/m;
	}
	return @wrong;
}

# The contents of a server: version by key.
sub contents
{
	my ($session, @of) = @_;
	my %query = (
		written => q{SELECT faults.documents('written')},
		far => q{SELECT faults.documents('far')},
		row => q{SELECT string_agg(id || '=' || version, ' ') FROM faults.item},
		article => q{SELECT string_agg(id || '=' || version, ' ') FROM faults.article});
	my %seen;
	for my $of (@of)
	{
		my $output = $session->insist($query{$of}, 60) // die "no answer: $session->{last}";
		$seen{"$of:$1"} = $2 while $output =~ /(\S+)=(\S+)/g;
	}
	return \%seen;
}

sub _lines
{
	my ($session, $kind, $what, $query) = @_;
	my $output = $session->insist($query, 60) // return [ 'late', "$what: $session->{last}" ];
	return map { [ $kind, "$what: $_" ] } grep { $_ ne '' } split /\n/, $output;
}

# Everything, once it is quiet. Returns what is wrong.
sub checks_of
{
	my ($campaign) = @_;
	my $session = $campaign->{session};
	my @wrong = $campaign->{model}->check_reads;
	push @wrong, $campaign->{model}->compare(contents($session,
		qw(written row article far)));
	push @wrong, map { _sources($campaign, $_) } qw(files repo pages);
	push @wrong, _articles($session);
	push @wrong, map { _lines($session, 'lost', "half a document of $_",
			"SELECT faults.half('$_')") } _collections($campaign);
	push @wrong, of_indexes($campaign);
	push @wrong, _lines($session, 'broken', 'rag_check_index',
		'SELECT faults.broken_indexes()');
	push @wrong, _lines($session, 'left', 'a prepared transaction',
		'SELECT gid FROM pg_prepared_xacts');
	push @wrong, _lines($session, 'left', 'a lock', q{SELECT l::text FROM pg_locks AS l
		WHERE pid NOT IN (SELECT pid FROM pg_stat_activity
			WHERE backend_type <> 'client backend' OR application_name NOT LIKE 'faults-%')});
	push @wrong, _lines($session, 'left', 'rag_status', q{SELECT concat_ws(' ', s::text)
		FROM rag_status() AS s WHERE s.severity = 'error'});
	push @wrong, map { left_of($_) } grep { defined } @$campaign{qw(primary standby subscriber)};
	push @wrong, _standby($campaign) if $campaign->{standby};
	push @wrong, _subscriber($campaign) if $campaign->{subscriber};
	return @wrong;
}

# Indexes return what the tables have.
sub of_indexes
{
	my ($campaign) = @_;
	my $session = $campaign->{session};
	return ((map { _found($session, $_) } _collections($campaign)),
		_lines($session, 'broken', 'faults.item', 'SELECT faults.wrong_rows()'));
}

# A collection has what its source has.
sub _sources
{
	my ($campaign, $name) = @_;
	my %should = $campaign->{origins}->versions($name);
	my $output = $campaign->{session}->insist("SELECT faults.documents('$name')", 60)
	  // return [ 'late', $name ];
	my %is;
	my @wrong;
	while ($output =~ /(?:\S*[\/#])?(\S+)=(\S+)/g)
	{
		my ($file, $version) = ($1, $2);
		push @wrong, [ 'doubled', "$name has $file twice" ] if exists $is{$file};
		$is{$file} = $version;
	}
	for my $file (sort keys %{ { %is, %should } })
	{
		my ($is, $should) = ($is{$file} // '-', $should{$file} // '-');
		next if $is eq $should;
		push @wrong, [ $is eq '-' ? 'lost' : 'stale', "$name: $file is $is instead of $should" ];
	}
	return @wrong;
}

my $articles = q{SELECT coalesce(string_agg(id || '=' || version, ' ' ORDER BY id), '') = (
	SELECT coalesce(string_agg(split_part(uri, '/', -1) || '=' ||
		substring(content FROM 'version (\d+)'), ' ' ORDER BY split_part(uri, '/', -1)::int), '')
	FROM rag.documents WHERE collection = 'articles' AND content IS NOT NULL) FROM faults.article};

sub _articles
{
	my ($session) = @_;
	return map { [ 'stale', "the documents of a table: $_->[1]" ] }
	  _becomes($session, $articles, 't', 'are those of its rows');
}

# Searches find the chunks of a collection, in all modes.
sub _found
{
	my ($session, $of) = @_;
	my $all = $session->insist("SELECT string_agg(uri || '=' || substring(content FROM
			'version (\\d+)') || ':' || chunk_count || ':' || chunk_count, ' ' ORDER BY uri)
		FROM rag.documents WHERE collection = '$of' AND content LIKE 'Part %'", 60) // '';
	my @wrong;
	for my $mode (qw(vector keyword hybrid))
	{
		my $found = $session->insist("SELECT faults.found('$of', '$mode')", 60)
		  // "nothing: $session->{last}";
		next if $found eq $all;
		my %found = map { $_ => 1 } split / /, $found;
		my %all = map { $_ => 1 } split / /, $all;
		push @wrong, [ 'lost', "a search of $of ($mode) lacks: "
			. join(' ', grep { !$found{$_} } sort keys %all) . '; has: '
			. join(' ', grep { !$all{$_} } sort keys %found) ];
	}
	return @wrong;
}

# Processes and files that a server does not need.
sub left_of
{
	my ($node) = @_;
	my $data = $node->data_dir;
	my ($postmaster) = RagProcesses::slurp("$data/postmaster.pid") =~ /^(\d+)/ or return;
	my $until = time + 20;
	my @wrong;
	do
	{
		@wrong = ();
		for my $pid (grep { (readlink("/proc/$_/cwd") // '') eq $data }
			map { m{(\d+)$} } glob '/proc/[0-9]*')
		{
			my $line = RagProcesses::slurp("/proc/$pid/cmdline") =~ tr/\0/ /r;
			my $top = $pid;
			for (1 .. 5)
			{
				last if $top == $postmaster;
				$top = (RagProcesses::slurp("/proc/$top/stat") =~ /^.*\) \S (\d+)/s)[0] // last;
			}
			next if !RagProcesses::is_running($pid);
			push @wrong, [ 'left', "process $pid of a former server: $line" ]
			  if $top != $postmaster;
			push @wrong, [ 'left', "process $pid of a run: $line" ]
			  if $line =~ /rag-engine ingest|rag runner/;
		}
		push @wrong, map { [ 'left', "file $_" ] }
		  grep { !/postmaster|\.tmp\.\d/ } glob "$data/pg_rag/work/* $data/base/pgsql_tmp/*";
		usleep(100_000) if @wrong;
	} while (@wrong && time < $until);
	return @wrong;
}

sub _standby
{
	my ($campaign) = @_;
	my $session = $campaign->{session};
	my $there = $campaign->{standby_session};
	my $lsn = $session->insist("SELECT pg_logical_emit_message(true, 'all', '')", 30);
	$lsn = $session->insist('SELECT pg_current_wal_lsn()', 30);
	my @wrong = _becomes($there, "SELECT pg_last_wal_replay_lsn() >= '$lsn'", 't',
		'the standby has all');
	return @wrong if @wrong;
	for my $query (q{SELECT faults.documents('written')},
		q{SELECT md5(string_agg(i::text, ',' ORDER BY id)) FROM faults.item AS i},
		q{SELECT faults.found('written', 'keyword')}, q{SELECT faults.found('written', 'vector')})
	{
		my ($here, $other) = map { $_->insist($query, 60) // $_->{last} } $session, $there;
		push @wrong, [ 'lost', "the standby answers $query with $other instead of $here" ]
		  if $here ne $other;
	}
	push @wrong, _lines($there, 'broken', 'rag_check_index on the standby',
		'SELECT faults.broken_indexes()');
	return @wrong;
}

sub _subscriber
{
	my ($campaign) = @_;
	my $there = $campaign->{subscriber_session};
	my $rows = q{SELECT coalesce(string_agg(concat_ws('=', id, version), ' ' ORDER BY id, version),
			'') FROM (SELECT id, version FROM faults.article
			UNION ALL SELECT id, version FROM faults.item) AS all_rows};
	my $all = $campaign->{session}->insist($rows, 60);
	my @wrong = _becomes($there, $rows, $all, 'the rows of the subscriber');
	return map { [ 'lost', $_->[1] ] } @wrong if @wrong;
	return map { [ 'stale', "on the subscriber: $_->[1]" ] }
	  _becomes($there, $articles, 't', 'documents are those of the rows'),
	  _lines($there, 'broken', 'rows', 'SELECT faults.wrong_rows()'),
	  _lines($there, 'broken', 'rag_check_index',
		'SELECT faults.broken_indexes()');
}

1;
