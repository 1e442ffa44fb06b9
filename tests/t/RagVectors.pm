# Servers that search vectors: contract servers (tests/servers), or real ones at
# RAG_TEST_QDRANT_URL and RAG_TEST_ELASTICSEARCH_URL.
package RagVectors;

use strict;
use warnings;
use File::Basename qw(dirname);
use HTTP::Tiny;
use IPC::Open2;
use JSON::PP ();
use Test::More ();

my @servers;

# Starts a server, "qdrant" or "elasticsearch". With a secret, requests must have it in their
# header. Returns its address.
sub start
{
	my ($kind, $secret) = @_;
	my $folder = dirname(__FILE__) . '/../servers';
	my @command = ('python3', '-B', "$folder/$kind.py", $secret // ());
	my $pid = open2(my $out, my $in, @command);
	my $port = <$out> // die "$kind.py does not start";
	chomp $port;
	# it ends with its standard input
	push @servers, { pid => $pid, in => $in };
	return "http://127.0.0.1:$port";
}

# The address of the real server of a kind, or of a new contract server.
sub server
{
	my ($kind) = @_;
	my $url = $ENV{ 'RAG_TEST_' . uc($kind) . '_URL' };
	Test::More::note("$kind: " . ($url ? "the server at $url" : 'the contract server'));
	return $url // start($kind);
}

# The numbers of requests to a contract server, by method and path.
sub requests
{
	my ($url) = @_;
	return JSON::PP::decode_json(HTTP::Tiny->new->get("$url/_test")->{content});
}

# Has the next requests to a contract server fail.
sub fail_next
{
	my ($url, %fault) = @_;
	my $answer = HTTP::Tiny->new->post("$url/_test", { content => JSON::PP::encode_json(\%fault) });
	return $answer->{success} || die $answer->{content};
}

sub stop_all
{
	for my $server (splice @servers)
	{
		close $server->{in};
		waitpid $server->{pid}, 0;
	}
	return;
}

END { local $?; stop_all() }

1;
