# A git repository with a history, and a server for it: git's own CGI program behind a few lines of
# HTTP.
package RagGit;

use strict;
use warnings;

use Exporter 'import';
use File::Path qw(remove_tree);
use IO::Socket::INET;
use IPC::Run ();
use POSIX ();
use PostgreSQL::Test::Utils ();
use RagCluster;

our @EXPORT = qw(git_repository git_server);

# Creates an empty repository with the branch main checked out.
sub git_repository
{
	my $self = bless { path => temp_folder() }, __PACKAGE__;
	$self->git('init', '--quiet');
	$self->git('symbolic-ref', 'HEAD', 'refs/heads/main');
	return $self;
}

sub path { return $_[0]{path} }

sub git
{
	my ($self, @command) = @_;
	local %ENV = (%ENV, GIT_CONFIG_GLOBAL => '/dev/null', GIT_CONFIG_SYSTEM => '/dev/null');
	my @identity = ('-c', 'user.name=Test', '-c', 'user.email=test@example.org', '-c', 'gc.auto=0');
	system('git', '-C', $self->{path}, @identity, @command) == 0 or die "git @command failed";
	return;
}

# Commits everything in the folder. Returns the commit's id.
sub commit
{
	my ($self) = @_;
	$self->git('add', '--all');
	$self->git('commit', '--quiet', '--allow-empty', '--message', 'a change');
	return $self->head;
}

sub head
{
	my ($self) = @_;
	chomp(my $id = `git -C $self->{path} rev-parse HEAD`);
	return $id;
}

sub write
{
	my ($self, $file, $content) = @_;
	write_file("$self->{path}/$file", $content);
	return;
}

sub remove
{
	my ($self, @files) = @_;
	remove_tree(map { "$self->{path}/$_" } @files);
	return;
}

sub rename
{
	my ($self, $from, $to) = @_;
	# git mv needs the folder to exist
	my $text = PostgreSQL::Test::Utils::slurp_file("$self->{path}/$from");
	$self->remove($from);
	$self->write($to, $text);
	return;
}

# Serves the repository on loopback until the test ends. Returns its URL.
sub git_server
{
	my ($repository) = @_;
	my $listener = IO::Socket::INET->new(Listen => 16, LocalAddr => '127.0.0.1', Proto => 'tcp')
	  or die "no socket: $!";
	my $parent = $$;
	my $pid = fork // die "no process: $!";
	if ($pid == 0)
	{
		# child processes are not waited for, and the server ends with the test
		local $SIG{CHLD} = 'IGNORE';
		local $SIG{ALRM} = sub { getppid() == $parent or POSIX::_exit(0); alarm 1 };
		alarm 1;
		while (1)
		{
			my $connection = $listener->accept or next;
			my $child = fork;
			next if !defined $child || $child;
			alarm 0;
			eval { _answer($connection, $repository->path) };
			POSIX::_exit(0);
		}
	}
	push @RagGit::servers, $pid;
	return 'http://127.0.0.1:' . $listener->sockport . '/.git';
}

END { kill 'TERM', @RagGit::servers if @RagGit::servers }

sub _answer
{
	my ($connection, $folder) = @_;
	local $SIG{CHLD} = 'DEFAULT';
	my ($method, $target) = split / /, scalar(readline $connection);
	my ($path, $query) = split /\?/, $target, 2;
	my %header;
	while (defined(my $line = readline $connection))
	{
		$line =~ s/\r?\n\z//;
		last if $line eq '';
		my ($name, $value) = split /: */, $line, 2;
		$header{ lc $name } = $value;
	}
	my $body = '';
	read $connection, $body, $header{'content-length'} if $header{'content-length'};
	local %ENV = (
		%ENV,
		GIT_PROJECT_ROOT => $folder,
		GIT_HTTP_EXPORT_ALL => 1,
		GIT_CONFIG_COUNT => 1,
		GIT_CONFIG_KEY_0 => 'safe.directory',
		GIT_CONFIG_VALUE_0 => '*',
		PATH_INFO => $path,
		QUERY_STRING => $query // '',
		REQUEST_METHOD => $method,
		CONTENT_TYPE => $header{'content-type'} // '',
		CONTENT_LENGTH => length $body);
	my $reply;
	IPC::Run::run([ 'git', 'http-backend' ], '<', \$body, '>', \$reply, '2>', '/dev/null')
	  or return;
	my ($head, $content) = split /\r\n\r\n/, $reply, 2;
	my $status = $head =~ s/\AStatus: ([^\r\n]*)\r\n// ? $1 : '200 OK';
	print {$connection} "HTTP/1.1 $status\r\nConnection: close\r\nContent-Length: ",
	  length $content, "\r\n$head\r\n\r\n$content";
	close $connection;
	return;
}

1;
