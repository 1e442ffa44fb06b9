# A web server on loopback that delays its answers as long as a test wants, so that a run stays in
# progress.
package RagHold;

use strict;
use warnings;
use IO::Socket::INET;
use RagCluster ();

my ($folder, $listener, $server);
my $served = 0;

# The address of its documents: paths below /NAME/ belong to the hold NAME.
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

sub release
{
	return map { unlink "$folder/hold-$_" } @_;
}

# Waits until a request below /NAME/ waits for its answer.
sub await_request
{
	my ($name) = @_;
	return RagCluster::await("there is a request for $name", sub { -e "$folder/asked-$name" });
}

# The spec of a static source that reads the files of a folder in order, with pages before, between
# and after them. Between any two pages there is the same number of files. A run starts to read when
# "first" is released, and has all files when "last" is requested.
#
# All come from this server, which a run asks for two files at a time. So a page has a picture
# beside it, which is no document: while both are held, nothing after them is read.
sub files_between_pages
{
	my ($files, @between) = @_;
	my $origin = origin();
	my $name = 'files-' . ++$served;
	symlink $files, "$folder/$name" or die "cannot link $files: $!";
	my @files = map { m{([^/]+)$} && "$origin/$name/$1" } sort glob "$files/*";
	my $each = int((@files + @between) / (1 + @between));
	my @endpoints = map { (held($_), splice @files, 0, $each) } 'first', @between;
	return sprintf '{"endpoints": [%s]}', join ', ', map { qq{"$_"} } @endpoints, held('last');
}

sub held
{
	my ($name) = @_;
	return (origin() . "/$name/picture.png", page($name));
}

# The address of a document that the hold of a name delays.
sub page { my ($name) = @_; return origin() . "/$name/page.md" }

# Starts a run of a source of files_between_pages(FILES, 'middle') and holds it until
# release('middle'). The given number of documents before that page is stored, and none after it.
sub start_sync_and_hold
{
	my ($node, $source, $stored) = @_;
	hold('middle');
	my $sync = RagCluster::start_sql($node, "SELECT rag_sync('$source')");
	await_request('middle');
	RagCluster::await_stored($node, $source, $stored);
	return $sync;
}

# Sets the answer to requests below /NAME/: status and headers. Without lines the answer is a
# document again.
sub answer
{
	my ($name, @lines) = @_;
	origin();
	return @lines
	  ? RagCluster::write_file("$folder/answer-$name", join "\r\n", @lines)
	  : unlink "$folder/answer-$name";
}

sub serve
{
	$folder = RagCluster::temp_folder();
	$listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 50, ReuseAddr => 1)
	  or die "cannot listen: $!";
	my $parent = $$;
	$server = fork // die $!;
	return if $server;
	# prove reads the output of a test until every process that could print has ended, and modules
	# of tests have copies of its output
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
	my $is_picture = $path =~ /\.png$/;
	RagCluster::write_file("$folder/asked-$name", '') if -e "$folder/hold-$name" && !$is_picture;
	select undef, undef, undef, 0.01
	  while -e "$folder/hold-$name" && RagCluster::is_running($parent);
	my $answer =
	  -e "$folder/answer-$name"
	  ? PostgreSQL::Test::Utils::slurp_file("$folder/answer-$name")
	  : '200 OK';
	my $body = $answer =~ /^200/ ? "# Document\n\nA text of $path.\n" : '';
	$body = PostgreSQL::Test::Utils::slurp_file($folder . $path) if -l "$folder/$name";
	my $type = $is_picture ? 'image/png' : 'text/markdown';
	print $connection "HTTP/1.1 $answer\r\nContent-Type: $type\r\nContent-Length: "
	  . length($body)
	  . "\r\nConnection: close\r\n\r\n$body";
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
