# A web server on loopback whose answers a test holds back, so that a run is in the middle for as long as the test likes.
package RagHold;

use strict;
use warnings;
use IO::Socket::INET;
use RagCluster ();

my ($folder, $listener, $server);

# Where its documents are: anything below /NAME/ is of one hold.
sub origin
{
	serve() if !defined $server;
	return 'http://127.0.0.1:' . $listener->sockport;
}

# Requests below /NAME/ wait for an answer until release(NAME).
sub hold
{
	my ($name) = @_;
	origin();
	unlink "$folder/asked-$name";
	return RagCluster::write_file("$folder/hold-$name", '');
}
sub release { return map { unlink "$folder/hold-$_" } @_ }

# Waits until a request below /NAME/ waits for its answer.
sub await_asked
{
	my ($name) = @_;
	return RagCluster::await("there is a request for $name", sub { -e "$folder/asked-$name" });
}

# What a source of kind static names to read the files of a folder between two pages, which the holds "first" and "last" are for: its
# run begins to read when the one is released, and has all the files when the other is asked for.
sub files_between_pages
{
	my ($files) = @_;
	my @endpoints = (origin() . '/first/page.md', (map { "file://$_" } sort glob "$files/*"), origin() . '/last/page.md');
	return sprintf '{"endpoints": [%s]}', join ', ', map { qq{"$_"} } @endpoints;
}

# What requests below /NAME/ are answered: status and headers; a document again where there are none.
sub answer
{
	my ($name, @lines) = @_;
	origin();
	return @lines ? RagCluster::write_file("$folder/answer-$name", join "\r\n", @lines) : unlink "$folder/answer-$name";
}

sub serve
{
	$folder = RagCluster::temp_folder();
	$listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 50, ReuseAddr => 1) or die "cannot listen: $!";
	my $parent = $$;
	$server = fork // die $!;
	return if $server;
	# prove reads what a test prints until everyone who could print has gone, and the test's modules have copies of its output
	POSIX::close($_) for grep { $_ != fileno $listener } 1 .. 255;
	$SIG{PIPE} = 'IGNORE';
	$SIG{CHLD} = 'IGNORE';
	while (1)
	{
		my $connection = $listener->accept or next;
		next if fork // die $!;
		reply($connection, $parent);
		POSIX::_exit(0);
	}
}

sub reply
{
	my ($connection, $parent) = @_;
	my ($path, $name) = (<$connection> // '') =~ m{^\w+ (/([^/ ]*)\S*) } or return;
	while (defined(my $line = <$connection>)) { last if $line =~ /^\r?\n/ }
	RagCluster::write_file("$folder/asked-$name", '') if -e "$folder/hold-$name";
	select undef, undef, undef, 0.01 while -e "$folder/hold-$name" && RagCluster::is_running($parent);
	my $answer = -e "$folder/answer-$name" ? PostgreSQL::Test::Utils::slurp_file("$folder/answer-$name") : '200 OK';
	my $body = $answer =~ /^200/ ? "# Document\n\nA text of $path.\n" : '';
	print $connection "HTTP/1.1 $answer\r\nContent-Type: text/markdown\r\nContent-Length: " . length($body) . "\r\nConnection: close\r\n\r\n$body";
	close $connection;
	return;
}

END
{
	local ($?, $!);
	if ($server) { kill 'TERM', $server and waitpid $server, 0 }
}

use POSIX ();

1;
