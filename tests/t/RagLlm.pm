# A server of language models on loopback, written from the public descriptions of the interfaces of
# OpenAI, Ollama, Cohere and Text Embeddings Inference. The first part of a path is the name of a
# server, and says how it behaves: see RagLlmServers. All requests are recorded.
package RagLlm;

use strict;
use warnings;
use Encode ();
use IO::Socket::INET;
use JSON::PP ();
use RagCluster ();
use RagLlmServers ();

my $json = JSON::PP->new->utf8->canonical;
my ($folder, $listener, $server);

# The address of the server of a name.
sub origin
{
	my ($name) = @_;
	serve() if !defined $server;
	return 'http://127.0.0.1:' . $listener->sockport . "/$name";
}

# What chat models of a name answer from now on.
sub says
{
	my ($name, $text) = @_;
	origin($name);
	return RagCluster::write_file("$folder/says-$name", Encode::encode('UTF-8', $text));
}

# From now on servers of a kind that fails work.
sub heal { my ($kind) = @_; return RagCluster::write_file("$folder/healed-$kind", '') }

# The requests to a name since the last call: path, authorization, body.
sub requests
{
	my ($name) = @_;
	my $file = "$folder/requests-$name";
	return if !-e $file;
	open my $log, '<', $file or die $!;
	my @requests = map { $json->decode($_) } <$log>;
	unlink $file;
	return @requests;
}

# The number of requests to a name.
sub count { my ($name) = @_; my @requests = requests($name); return scalar @requests }

# The number of all requests to a name.
sub seen { my ($name) = @_; return -s "$folder/count-$name" // 0 }

sub serve
{
	$folder = $RagLlmServers::folder = RagCluster::temp_folder();
	$listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 50, ReuseAddr => 1)
	  or die "cannot listen: $!";
	$server = fork // die $!;
	return if $server;
	# a group of its own with the processes that answer; the test's output is not theirs
	setpgrp 0, 0;
	open STDOUT, '>', '/dev/null';
	open STDERR, '>', '/dev/null';
	$SIG{CHLD} = 'IGNORE';
	$SIG{TERM} = 'DEFAULT';
	while (1)
	{
		my $connection = $listener->accept or next;
		my $child = fork // next;
		if ($child == 0)
		{
			$SIG{PIPE} = 'DEFAULT';
			close $listener;
			alarm 120;
			1 while reply($connection);
			close $connection;
			require POSIX;
			POSIX::_exit(0);
		}
		close $connection;
	}
}

END { local $?; kill 'TERM', -$server and waitpid $server, 0 if $server }

# Answers a request. Returns true if another may follow on the connection.
sub reply
{
	my ($connection) = @_;
	my ($path) = (<$connection> // '') =~ m{^\w+ (\S+) } or return;
	my %header;
	while (defined(my $line = <$connection>))
	{
		last if $line =~ /^\r?\n/;
		$header{ lc $1 } = $2 if $line =~ /^([^:]+): (.*?)\r?\n/;
	}
	my $body = '';
	read $connection, $body, $header{'content-length'} // 0;
	my ($name, $rest) = $path =~ m{^/([^/]+)(.*)$} or return;
	my $request = eval { $json->decode($body) } // {};
	my $record = {
		path => $rest,
		authorization => $header{authorization},
		type => $header{'content-type'},
		body => $request
	};
	open my $log, '>>', "$folder/requests-$name" or die $!;
	print $log $json->encode($record), "\n";
	close $log;
	open $log, '+>>', "$folder/count-$name" or die $!;
	syswrite $log, '.';
	my $seen = -s $log;
	close $log;
	$connection->autoflush(1);
	my ($behaviour) = $name =~ /^([a-z]+)/;
	my $other = RagLlmServers->can("_$behaviour");
	return ($other // \&RagLlmServers::_good)->($connection, $record, $seen, $name);
}

1;
