# Faults of the campaign that are those of a machine: a full disk, little memory, changed bytes on
# disk, a primary that is lost, a clock that jumps.
package RagFaultsMachine;

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use RagCluster;
use RagFaultsInject;
use Time::HiRes qw(time usleep);

# -- disk
# ----------------------------------------

# The primary's file system is full, but for some kilobytes.
my @room = (0, 8, 200, 3000);
for my $room (@room)
{
	$RagFaultsInject::fault{"disk_$room"} = sub {
		my ($campaign) = @_;
		my $disk = $ENV{RAG_FAULTS_DISK} or return 'no disk';
		my $left = _fill("$disk/ballast", $room * 1024);
		return ("disk with $left kB left",
			sub { unlink "$disk/ballast" or die $! });
	};
}

sub _fill
{
	my ($path, $room) = @_;
	open my $file, '>:raw', $path or die "$path: $!";
	my $block = "\0" x 65536;
	1 while syswrite $file, $block;
	my $size = -s $path;
	truncate $file, $size > $room ? $size - $room : 0;
	close $file;
	return int $room / 1024;
}

# -- memory
# ----------------------------------------

# Processes may allocate little more than they have. They have the limit until it is lifted, or
# until they end.
sub _limit
{
	my ($more, @pids) = @_;
	my @limited;
	for my $pid (@pids)
	{
		my ($size) = RagProcesses::slurp("/proc/$pid/status") =~ /^VmSize:\s+(\d+)/m or next;
		push @limited, $pid
		  if system(sprintf 'prlimit --pid %d --as=%d: 2>/dev/null', $pid,
			$size * 1024 + $more) == 0;
	}
	return (scalar @limited,
		sub { system "prlimit --pid $_ --as=unlimited: 2>/dev/null" for @limited });
}

$RagFaultsInject::fault{memory_sessions} = sub {
	my ($campaign, $die) = @_;
	my @pids = split /\n/, $campaign->{session}->insist("SELECT pid FROM pg_stat_activity
		WHERE application_name LIKE 'faults-%' OR backend_type LIKE 'rag %'", 30) // '';
	my ($count, $heal) = _limit($die->(4_000_000), @pids);
	usleep(1000 * $die->(1500));
	return $count ? ("$count sessions", $heal) : 'no session';
};
$RagFaultsInject::fault{memory_engine} = sub {
	my ($campaign, $die) = @_;
	my ($count, $heal) = _limit($die->(20_000_000), engines($campaign->{primary}));
	usleep(1000 * $die->(1500));
	return $count ? ("$count engines", $heal) : 'no engine';
};

# -- pages
# ----------------------------------------

# Bytes of an index are changed while the server is down. Either rag_check_index tells, or each
# scan returns all rows all the same. REINDEX mends.
sub flip_pages
{
	my ($campaign, $die) = @_;
	my ($node, $session) = @$campaign{qw(primary session)};
	my @indexes = split /\n/, $session->insist(q{SELECT i.indexrelid::regclass
		FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid JOIN pg_am AS a
			ON a.oid = c.relam
		WHERE a.amname IN ('rag_hnsw', 'rag_bm25') AND c.relkind = 'i'
		ORDER BY i.indrelid::regclass::text, a.amname}, 30) // '';
	my $index = $indexes[ $die->(scalar @indexes) ];
	my $path = $node->data_dir . '/'
	  . $session->insist("SELECT pg_relation_filepath('$index')", 30);
	$session->close;
	$node->stop;
	open my $file, '+<:raw', $path or die "$path: $!";
	my $pages = (-s $path) / 8192;
	my @at;
	for (0 .. $die->(4))
	{
		my ($at, $byte);
		for (1 .. 20)
		{
			# not the first bytes: no page has an LSN of the future
			$at = $die->($pages) * 8192 + 8 + $die->(8184);
			seek $file, $at, 0;
			read $file, $byte, 1;
			last if ord $byte;    # much of a page is empty
		}
		seek $file, $at, 0;
		print $file chr(ord($byte) ^ (1 << $die->(8)));
		push @at, $at;
	}
	close $file;
	RagFaultsInject::start_again($node);
	my @wrong;
	my ($outcome, $told) = $session->run('SELECT faults.broken_indexes()');
	my $is_told = $outcome ne 'done' || $told ne '';
	push @wrong, [ 'broken', "$index damaged at @at: $told" ]
	  if $outcome eq 'unknown' || $told =~ /XX000/;
	if (!$is_told)
	{
		push @wrong, map { [ 'broken', "not told of $index, changed at @at: $_->[1]" ] }
		  RagFaultsChecks::of_indexes($campaign);
	}
	my ($mended, $error) = $session->run("REINDEX INDEX $index");
	push @wrong, [ 'broken', "REINDEX INDEX $index: $error" ] if $mended ne 'done';
	return ("$index at @at, " . ($is_told ? 'told' : 'harmless'), @wrong);
}

# -- a lost primary
# ----------------------------------------

$RagFaultsInject::fault{promote} = sub {
	my ($campaign, $die) = @_;
	my $old = $campaign->{primary};
	my $new = $campaign->{standby} or return 'no standby';
	if ($die->(2)) { RagFaultsInject::kill_server($old, $die->(2)) }
	else { $old->stop('immediate') }
	$campaign->{session}->close;
	$new->promote;
	return ('standby in place of ' . $old->name, sub { $campaign->replace_primary($new) });
};

# -- the clock
# ----------------------------------------

my @jumps = (-86400 * 3, -3600, -30, 30, 3600, 86400 * 40);
for my $seconds (@jumps)
{
	$RagFaultsInject::fault{"clock_$seconds"} = sub {
		my ($campaign, $die) = @_;
		return "no clock" if !$campaign->{clock};
		$campaign->set_clock($seconds);
		usleep(1000 * (500 + $die->(2000)));
		return ("clock by $seconds s", sub { $campaign->set_clock(0) });
	};
}

1;
