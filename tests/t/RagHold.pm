# A web server on loopback whose answers a test holds back, so that a run is in the middle for as
# long as the test likes.
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

# What a source of kind static names to read the files of a folder in order, with pages before,
# between and after them that a hold may be on: as many files between any two of them. A run begins
# to read when "first" is released, and has all the files when "last" is asked for.
sub files_between_pages
{
	my ($files, @between) = @_;
	my @files = map { "file://$_" } sort glob "$files/*";
	my $each = int((@files + @between) / (1 + @between));
	my @endpoints = map { (page($_), splice @files, 0, $each) } 'first', @between;
	return sprintf '{"endpoints": [%s]}', join ', ', map { qq{"$_"} } @endpoints, page('last');
}

# Where a document is that the hold of a name is for.
sub page { my ($name) = @_; return origin() . "/$name/page.md" }

# Begins a run of a source of files_between_pages(FILES, 'middle'), which stays in the middle until
# release('middle'): what comes before that page, so many documents, is stored, and what comes after
# it is not.
sub begin_in_the_middle
{
	my ($node, $source, $stored) = @_;
	hold('middle');
	my $sync = RagCluster::start_sql($node, "SELECT rag_sync('$source')");
	await_asked('middle');
	RagCluster::await_stored($node, $source, $stored);
	return $sync;
}

# What requests below /NAME/ are answered: status and headers; a document again where there are
# none.
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
	# prove reads what a test prints until everyone who could print has gone, and the test's modules
	# have copies of its output
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
