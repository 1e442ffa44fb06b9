# What the sources of the fault campaign read: a folder, a repository, and a web server that breaks
# as the test wants, and is a server of embeddings, too.
package RagFaultsOrigins;

use strict;
use warnings;

use Digest::MD5 qw(md5);
use Encode qw(encode_utf8);
use IO::Socket::INET;
use JSON::PP ();
use POSIX ();
use RagCluster;
use RagGit;
use Socket qw(SOL_SOCKET SO_LINGER);

use constant PAGES => 5;

# How the server breaks. Each gets the connection and a whole response.
my %break = (
	hang => sub { sleep 30 },
	refuse => sub { },
	reset => sub {
		my ($connection, $response) = @_;
		print $connection substr $response, 0, length($response) / 2;
		setsockopt $connection, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0);
	},
	truncate => sub {
		my ($connection, $response) = @_;
		print $connection substr $response, 0, -20;
	},
	error => sub { print { $_[0] } "HTTP/1.1 500 Broken\r\nContent-Length: 0\r\n\r\n" },
	busy => sub {
		print { $_[0] } "HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
	},
	garbage => sub { print { $_[0] } map { chr(($_ * 7919 + 13) % 256) } 1 .. 3000 },
	empty => sub { print { $_[0] } "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" },
	slow => sub {
		my ($connection, $response) = @_;
		for my $piece (unpack '(a40)*', $response)
		{
			print $connection $piece or return;
			select undef, undef, undef, 0.05;
		}
	},
	loop => sub {
		print { $_[0] } "HTTP/1.1 302 Found\r\nLocation: /page-1.md\r\nContent-Length: 0\r\n\r\n";
	});

sub ways { return sort keys %break }

sub new
{
	my ($class) = @_;
	my $self = bless { files => temp_folder(), pages => temp_folder(), repo => git_repository() },
	  $class;
	write_file("$self->{pages}/page-$_.md", text("page-$_", $_)) for 1 .. PAGES;
	write_file("$self->{files}/file-$_.md", text("file-$_", $_)) for 1 .. 3;
	$self->{repo}->write("file-$_.md", text("repo-$_", $_)) for 1 .. 3;
	$self->{repo}->commit;
	$self->_serve;
	return $self;
}

# As faults.text_of, without the mark.
sub text
{
	my ($name, $version) = @_;
	my $parts = 2 + $version % 3;
	return join("\n\n", map {
		"Part $_ of $parts of version $version of $name: the tide is high at the pier today."
	} 1 .. $parts) . "\n";
}

# Kinds and specs of the sources, by their name.
sub specs
{
	my ($self) = @_;
	my $port = $self->{listener}->sockport;
	my $pages = join ', ', map { qq("http://127.0.0.1:$port/page-$_.md") } 1 .. PAGES;
	return (
		files => [ 'folder', qq({"path": "$self->{files}"}) ],
		repo => [ 'git', qq({"repositoryURL": "@{[ $self->{repo}->path ]}", "lfs": false}) ],
		pages => [ 'static', qq({"endpoints": [$pages]}) ]);
}

# Changes what a source reads.
sub change
{
	my ($self, $name, $die, $version) = @_;
	if ($name eq 'pages')
	{
		my $page = 'page-' . (1 + $die->(PAGES));
		replace("$self->{pages}/$page.md", text($page, $version));
		return;
	}
	for (0 .. $die->(3))
	{
		my $n = 1 + $die->(7);
		my $is_removed = $die->(4) == 0 && $n > 1;
		my $text = text("$name-$n", $version + $_);
		if ($name eq 'repo')
		{
			$is_removed ? $self->{repo}->remove("file-$n.md")
			  : $self->{repo}->write("file-$n.md", $text);
			next;
		}
		my $path = "$self->{files}/file-$n.md";
		$is_removed ? unlink $path : replace($path, $text);
	}
	$self->{repo}->commit if $name eq 'repo';
	return;
}

# A reader sees the former file or the new one.
sub replace
{
	my ($path, $text) = @_;
	my $new = $path =~ s{([^/]+)$}{.$1}r;
	write_file($new, $text);
	rename $new, $path or die "$path: $!";
	return;
}

# The versions that a source has now, by the last part of the uri.
sub versions
{
	my ($self, $name) = @_;
	my $folder = $name eq 'repo' ? $self->{repo}->path : $self->{$name};
	my %versions;
	for my $path (glob "$folder/*.md")
	{
		my ($version) = PostgreSQL::Test::Utils::slurp_file($path) =~ /version (\d+)/;
		$versions{ $path =~ s{.*/}{}r } = $version;
	}
	return %versions;
}

# From now on the server breaks, or works if there is no way.
sub break
{
	my ($self, $way) = @_;
	return unlink "$self->{pages}/way" if !defined $way;
	return write_file("$self->{pages}/way", $way);
}

# -- the server
# ----------------------------------------

sub _serve
{
	my ($self) = @_;
	my $listener = $self->{listener} =
	  IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 50, ReuseAddr => 1)
	  or die "cannot listen: $!";
	my $parent = $$;
	my $pid = fork // die "no process: $!";
	if ($pid)
	{
		push @RagFaultsOrigins::servers, [ $parent, $pid ];
		return;
	}
	POSIX::close($_) for grep { $_ != fileno $listener } 0, 1, 3 .. 255;
	$SIG{CHLD} = 'IGNORE';
	$SIG{TERM} = 'DEFAULT';
	$SIG{PIPE} = 'IGNORE';
	local $SIG{ALRM} = sub { getppid == $parent or POSIX::_exit(0); alarm 1 };
	alarm 1;
	while (1)
	{
		my $connection = $listener->accept or next;
		next if fork // 1;
		alarm 60;
		$SIG{ALRM} = 'DEFAULT';
		eval { $self->_answer($connection) };
		close $connection;
		POSIX::_exit(0);
	}
}

sub _answer
{
	my ($self, $connection) = @_;
	$connection->autoflush(1);
	my ($path) = (<$connection> // '') =~ m{^\w+ /(\S*) } or return;
	my ($type, $body, $length) = ('text/markdown', undef, 0);
	while (defined(my $line = <$connection>))
	{
		last if $line =~ /^\r?\n/;
		$length = $1 if $line =~ /^content-length: (\d+)/i;
	}
	if ($path =~ m{/embeddings$})
	{
		read($connection, my $request, $length);
		($type, $body) = ('application/json', _embeddings($request));
	}
	my $file = "$self->{pages}/$path";
	$body = PostgreSQL::Test::Utils::slurp_file($file) if -f $file;
	my $response = defined $body
	  ? "HTTP/1.1 200 OK\r\nContent-Type: $type\r\nContent-Length: "
	  . length($body) . "\r\nConnection: close\r\n\r\n$body"
	  : "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
	my $way = -e "$self->{pages}/way"
	  && PostgreSQL::Test::Utils::slurp_file("$self->{pages}/way");
	if ($way && $break{$way}) { $break{$way}->($connection, $response) }
	else { print $connection $response }
	return;
}

# The answer of an embedding model with the interface of OpenAI: a vector depends on its text alone.
sub _embeddings
{
	my $texts = JSON::PP::decode_json($_[0])->{input};
	my $n = 0;
	my @data = map {
		{ index => $n++, embedding => [ map { $_ / 128 - 1 } unpack 'C*', md5(encode_utf8($_)) ] }
	} @$texts;
	return JSON::PP::encode_json(
		{ data => \@data, usage => { prompt_tokens => 1, total_tokens => 1 } });
}

# The address of the model.
sub model { my ($self) = @_; return sprintf 'http://127.0.0.1:%d/v1', $self->{listener}->sockport }

END
{
	local $?;
	kill 'TERM', map { $_->[1] } grep { $_->[0] == $$ } @RagFaultsOrigins::servers;
}

1;
