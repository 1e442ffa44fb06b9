# rag-gateway under load: many clients of events, large and slow bodies, clients that go away in the
# middle, and a server that is restarted meanwhile. Nothing is lost, and no connection is leaked.
use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use Test::More;
use RagCluster;
use RagGateway;

my $CLIENTS = 900;    # below the usual limit of open files

my $node = rag_node('gateway_load');
$node->safe_psql('postgres', 'CREATE ROLE adm IN ROLE rag_admin');
my $gateway = RagGateway->start($node, connections => 4, timeout => 5, max_body => 20_000_000);
my $key = $gateway->key('adm');

sub connection
{
	my ($request) = @_;
	my $socket = IO::Socket::INET->new(PeerAddr => $gateway->{address}) or die $!;
	print $socket $request;
	return $socket;
}
my $head = "Host: x\r\nAuthorization: Bearer $key\r\n";

# -- clients of events
my @clients = map { connection("GET /v1/events HTTP/1.1\r\n$head\r\n") } 1 .. $CLIENTS;
await('all listen', sub {
	$gateway->ok(undef, GET => '/metrics') =~ /^rag_gateway_event_streams $CLIENTS$/m });
await('the gateway listens', sub { ask($node, "SELECT count(*) FROM pg_stat_activity
	WHERE query = 'LISTEN rag_events' AND state = 'idle'") == 1 });
open my $status, '<', "/proc/$gateway->{pid}/status" or die $!;
my ($kilobytes) = map { /^VmRSS:\s+(\d+)/ ? $1 : () } <$status>;
cmp_ok($kilobytes / $CLIENTS, '<', 40, 'an idle client takes less than 40 kB')
  or diag("$kilobytes kB");
$node->safe_psql('postgres', q{SET ROLE adm; SELECT rag_create_collection('site'),
	rag_create_source('site', 'website', '{"url": "https://www.example.org/"}', 'site',
		suspend => true)});
my $waiting = IO::Select->new(@clients);
my %read;
await('all get the event', sub {
	for my $client ($waiting->can_read(0.1))
	{
		$read{$client} //= '';
		sysread $client, $read{$client}, 65536, length $read{$client} or die 'a client was left';
		$waiting->remove($client) if $read{$client} =~ /Suspended/;
	}
	return $waiting->count == 0;
});
is($gateway->status($key, GET => '/v1/status'), 200, 'requests are answered meanwhile');
close $_ for @clients;
await('all have gone', sub {
	$gateway->ok(undef, GET => '/metrics') =~ /^rag_gateway_event_streams 0$/m });

# -- bodies
my $large = 'A sentence that is repeated. ' x 350_000;
my ($form, %type) = RagGateway::form('large.txt', $large, collection => 'site');
like($gateway->status($key, POST => '/v1/documents', $form, %type), qr/^(200|504)$/,
	'a body of 10 MB is taken, and its request limited in time');
my $slow = connection("POST /v1/search HTTP/1.1\r\n${head}Content-Type: application/json\r\n"
	  . "Content-Length: 100\r\n\r\n{");
like(scalar <$slow>, qr/^HTTP\/1.1 408/, 'a body that does not arrive gets 408');

# -- clients that go away in the middle
for (1 .. 50)
{
	my $client = connection(
		"POST /v1/search HTTP/1.1\r\n${head}Content-Type: application/json\r\n"
		  . "Content-Length: 16\r\n\r\n{\"query\": \"keys\"");
	print $client '}' if $_ % 2;
	shutdown $client, 1 if $_ % 3;
	close $client;
}
is($gateway->status($key, POST => '/v1/search', { query => 'keys' }), 200,
	'clients that go away disturb nobody');
await('no statement is left', sub { ask($node, "SELECT count(*) FROM pg_stat_activity
	WHERE application_name = 'rag-gateway' AND state <> 'idle'") == 0 });
cmp_ok(ask($node, "SELECT count(*) FROM pg_stat_activity
	WHERE application_name = 'rag-gateway' AND query <> 'LISTEN rag_events'"), '<=', 4,
	'no connection is leaked');

# -- a restart of the server during requests
my $request = "GET /v1/status HTTP/1.1\r\nConnection: close\r\n$head\r\n";
my @running = map { connection($request) } 1 .. 40;
$node->restart;
my %statuses;
for my $client (@running)
{
	my ($line) = (scalar(<$client>) // '') =~ /^HTTP\/1.1 (\d+)/;
	$statuses{ $line // 'none' }++;
}
is(join(' ', grep { !/^(200|503)$/ } keys %statuses), '', 'each request is answered or refused');
is($gateway->status($key, GET => '/v1/status'), 200, 'the gateway goes on');
is($gateway->stop, 0, 'the program ends with status 0');
done_testing();
