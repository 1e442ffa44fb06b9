# Random paths, keys and bodies against rag-gateway: none of them gets 500, or ends the program or
# the server. RAG_TEST_SEED repeats a run, RAG_TEST_SECONDS says how long it takes (default 60).
use strict;
use warnings;
use IO::Socket::INET;
use JSON::PP ();
use Test::More;
use Time::HiRes qw(time);
use RagCluster;
use RagGateway;

my $seed = $ENV{RAG_TEST_SEED} // int(rand(2**31));
my $seconds = $ENV{RAG_TEST_SECONDS} // 60;
srand $seed;
diag("RAG_TEST_SEED=$seed");

my $node = rag_node('gateway_fuzz');
$node->safe_psql(
	'postgres', q{
	CREATE ROLE adm IN ROLE rag_admin;
	CREATE ROLE web IN ROLE rag_reader;
	SELECT rag_grant_collection('default', 'adm', 'write'),
		rag_grant_collection('default', 'web', 'read');
	SELECT rag_add_document('Keys are rotated every 90 days.', 'keys');
	SELECT rag_create_source('site', 'website', '{"url": "https://www.example.org/"}',
		suspend => true)});
my $gateway = RagGateway->start($node, timeout => 10, max_body => 200_000);
my $json = JSON::PP->new->utf8->canonical->allow_nonref;
my $started = $node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()');
my @keys = ($gateway->key('adm'), $gateway->key('web'));
my $description = $gateway->ok(undef, GET => '/openapi.json');
my @routes;
for my $path (sort keys %{ $description->{paths} })
{
	# a stream of events does not end
	next if $path eq '/v1/events';
	push @routes, map { [ uc $_, $path, $description->{paths}{$path}{$_} ] }
	  sort keys %{ $description->{paths}{$path} };
}

sub any { return $_[ int rand @_ ] }

my @words = (
	'', ' ', 'default', 'site', 'keys', '1', '-1', '0', '9223372036854775808', 'NaN', 'null',
	"a\0b", "'", '"; DROP TABLE rag.documents; --', '../../etc/passwd', '%', '*', "\x{1F600}",
	"\x{202E}x", "\x{FEFF}", "\t\n", 'a' x 300, 'a/b', '{}', '[]', 'rag/default', '\\', '$1',
	'00000000-0000-0000-0000-000000000000', '2026-01-01', 'infinity', '1 day',
	'pg_catalog.english');

sub word
{
	return any(@words) if rand() < 0.8;
	return join '', map { chr(any(1 .. 126, 0xE9, 0x3B1, 0x4E2D, 0x1F600)) } 1 .. int rand 30;
}

sub value
{
	my ($depth) = @_;
	my $kind = int rand($depth > 4 ? 7 : 9);
	return word() if $kind < 3;
	return any(0, 1, -1, 5, 2**31, -2**31, 2**63, 1e308, 0.5, 1e-300) if $kind == 3;
	return any(JSON::PP::true, JSON::PP::false) if $kind == 4;
	return undef if $kind == 5;
	return any([], {}) if $kind == 6;
	return [ map { value($depth + 1) } 1 .. int rand 5 ] if $kind == 7;
	return { map { (any(word(), qw(key operator value conditions content role name uri type))
			=> value($depth + 1)) } 1 .. int rand 5 };
}

# A value of the type that the description names, or any other.
sub fitting
{
	my ($schema) = @_;
	return value(0) if rand() < 0.3;
	my $type = $schema->{type} // any(qw(string array object));
	return word() if $type eq 'string';
	return any(0, 1, 5, 50, -1, 2**31, 2**40) if $type eq 'integer';
	return any(JSON::PP::true, JSON::PP::false) if $type eq 'boolean';
	return [ map { fitting($schema->{items} // {}) } 1 .. int rand 4 ] if $type eq 'array';
	return { map { (word() => value(1)) } 1 .. int rand 4 };
}

sub encoded
{
	my ($text) = @_;
	utf8::encode($text);
	$text =~ s/([^A-Za-z0-9_.-])/sprintf '%%%02X', ord $1/ge;
	return $text;
}

sub request
{
	my ($method, $path, $route) = @{ any(@routes) };
	my @query;
	for my $field (@{ $route->{parameters} // [] })
	{
		my $value = encoded(word());
		if ($field->{in} eq 'path') { $path =~ s/\{$field->{name}\}/$value/ }
		elsif (rand() < 0.5) { push @query, "$field->{name}=$value" }
	}
	push @query, encoded(word()) . '=' . encoded(word()) if rand() < 0.1;
	$path .= '?' . join '&', @query if @query;
	$path .= any('/', '//', '/..', '%00', '%ff', '#x') if rand() < 0.05;
	$method = any(qw(GET POST PUT PATCH DELETE OPTIONS HEAD TRACE)) if rand() < 0.05;
	my ($body, $type) = ('', any('application/json', 'application/json', 'application/json',
		'text/plain', 'multipart/form-data; boundary=x', 'application/json; charset=latin1'));
	if (my $content = ($route->{requestBody} // {})->{content})
	{
		my $schema = ($content->{'application/json'} // {})->{schema} // {};
		my %fields = %{ $schema->{properties} // {} };
		my %required = map { $_ => 1 } @{ $schema->{required} // [] };
		my %given = map { ($_ => fitting($fields{$_})) }
		  grep { $required{$_} ? rand() < 0.95 : rand() < 0.3 } sort keys %fields;
		$given{ word() } = value(0) if rand() < 0.1;
		$body = $json->encode(rand() < 0.95 ? \%given : value(0));
	}
	$body = '[' x any(100, 10_000, 150_000) if rand() < 0.02;
	if (rand() < 0.1 && length $body)
	{
		# a byte more, less or changed
		substr($body, int rand length $body, any(0, 1, 1), any('', chr int rand 256, '"', '}'));
	}
	my $key = rand() < 0.85 ? any(@keys)
	  : any('', 'x', "rag_${\('0' x 16)}_${\('0' x 64)}", substr($keys[0], 0, -1), 'eyJ.e30.x',
		encoded(word()));
	return ($method, $path, $body, $type, $key);
}

my %statuses;
my @bad;
my $until = time + $seconds;
my $sent = 0;
while (time < $until && @bad < 5)
{
	my ($method, $path, $body, $type, $key) = request();
	# a wrong key waits; many of them would be most of the time
	my $socket = IO::Socket::INET->new(PeerAddr => $gateway->{address}, Timeout => 30) or last;
	my $head = "$method $path HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: $type\r\n"
	  . 'Content-Length: ' . length($body) . "\r\n";
	$head .= "Authorization: Bearer $key\r\n" if length $key;
	local $SIG{PIPE} = 'IGNORE';
	print $socket "$head\r\n$body";
	my $answer = do { local $/; <$socket> } // '';
	my ($status) = $answer =~ /^HTTP\/1.1 (\d+)/;
	$statuses{ $status // 'none' }++;
	$sent++;
	push @bad, ($status // 'none') . ": $method $path $body"
	  if !defined $status || $status == 500 || $answer =~ /SELECT .* FROM|rag_internal|panicked/;
}
is(join("\n", map { substr $_, 0, 2000 } @bad), '', "$sent random requests get no 500");
diag(join ', ', map { "$_: $statuses{$_}" } sort keys %statuses);
cmp_ok($statuses{200} // 0, '>', 0, 'some of them succeed');
is($gateway->status($keys[1], POST => '/v1/search', { query => 'keys' }), 200,
	'the gateway goes on');
is($node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()'), $started,
	'the server was not restarted');
unlike($gateway->log, qr/panicked/, 'nothing panicked');
is($gateway->stop, 0, 'the program ends with status 0');
done_testing();
