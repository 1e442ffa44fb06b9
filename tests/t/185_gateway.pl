# rag-gateway: keys, rights, errors, limits, and what happens when the server is away.
use strict;
use warnings;
use IO::Socket::INET;
use PostgreSQL::Test::Cluster;
use Test::More;
use Time::HiRes qw(time);
use RagCluster;
use RagGateway;

my $node = rag_node('gateway', conf => "wal_level = replica\nmax_wal_senders = 5\n");
$node->safe_psql(
	'postgres', q{
	CREATE ROLE web IN ROLE rag_reader;
	CREATE ROLE staff IN ROLE rag_reader;
	CREATE ROLE adm IN ROLE rag_admin;
	CREATE ROLE nobody;
	CREATE ROLE boss SUPERUSER;
	CREATE ROLE deputy IN ROLE boss;
	SELECT rag_create_collection('public'), rag_create_collection('secret');
	SELECT rag_grant_collection('public', 'web', 'read'),
		rag_grant_collection('public', 'staff', 'write'),
		rag_grant_collection('secret', 'staff', 'read');
	SELECT rag_add_document('The canteen opens at noon.', 'canteen', collection => 'public');
	SELECT rag_add_document('Salaries are paid on the 25th.', 'pay', collection => 'secret');
});
my $gateway = RagGateway->start($node, connections => 2, timeout => 3, max_body => 100_000);
my %key = map { $_ => $gateway->key($_) } qw(web staff adm nobody);

# -- keys
# ----------------------------------------

like($key{web}, qr/^rag_[0-9a-f]{16}_[0-9a-f]{64}$/, 'a key has an id and a secret');
my ($secret) = $key{web} =~ /_([0-9a-f]{64})$/;
is( $node->safe_psql('postgres',
		"SELECT digest = sha256('$secret') FROM rag_internal.api_key WHERE name = 'web'"),
	't', 'only the hash of the secret is stored');
unlike(
	$node->safe_psql('postgres', 'SELECT row_to_json(k) FROM rag_internal.api_key k'),
	qr/$secret/, 'the secret is nowhere in the row');
for my $role (qw(boss deputy rag_gateway))
{
	error_like(run_sql($node, "SELECT rag_create_api_key('x', '$role')"),
		'42501', 'must not have API keys', undef, "$role cannot have a key");
}
error_like(run_sql($node, "SET ROLE adm; SELECT rag_create_api_key('x', 'staff')"),
	'42501', 'permission denied to create an API key', 'member of role "staff"',
	'nobody creates a key for a role that it cannot become');
is( $node->safe_psql('postgres', 'SET ROLE adm; SELECT count(*) FROM rag.api_keys'),
	0, 'roles see their own keys only');

my $search = { query => 'when does the canteen open?', collection => 'public' };
my $found = $gateway->ok($key{web}, POST => '/v1/search', $search);
is($found->{results}[0]{uri}, 'canteen', 'a key searches with the rights of its role');

my $expiring = $gateway->key('web', 'short', "expires_in => '1 second'");
my @wrong = (
	[ 'no key', undef ],
	[ 'a malformed key', 'rag_1_2' ],
	[ 'another word', 'x' ],
	[ 'a wrong id', $key{web} =~ s/rag_(.)/'rag_' . ($1 eq '0' ? '1' : '0')/er ],
	[ 'a wrong secret', $key{web} =~ s/(.)$/$1 eq '0' ? '1' : '0'/er ]);
$node->safe_psql('postgres', 'SELECT pg_sleep(1.1)');
push @wrong, [ 'an expired key', $expiring ];
my $dropped = $gateway->key('web', 'dropped');
is($gateway->status($dropped, POST => '/v1/search', $search), 200, 'a new key works at once');
$node->safe_psql('postgres', "SELECT rag_drop_api_key('dropped')");
push @wrong, [ 'a dropped key', $dropped ];
for (@wrong)
{
	my ($what, $wrong) = @$_;
	my ($status, $body) = $gateway->request($wrong, POST => '/v1/search', $search);
	is($status, 401, "$what gets 401");
	like($gateway->{response}{headers}{'www-authenticate'},
		qr/^Bearer .*resource_metadata=/, "$what: the answer says where a key is to be had");
	is($body->{status}, 401, "$what: the body is of RFC 9457");
}
my $began = time;
$gateway->status($wrong[4][1], POST => '/v1/search', $search);
cmp_ok(time - $began, '>=', 0.29, 'the answer to a wrong key is delayed');

# -- rights
# ----------------------------------------

my @hidden =
  $gateway->request($key{web}, POST => '/v1/search', { %$search, collection => 'secret' });
my @missing =
  $gateway->request($key{web}, POST => '/v1/search', { %$search, collection => 'nowher' });
is($hidden[0], 404, 'a hidden collection does not exist');
is($missing[0], 404, 'neither does one that is not there');
s/secret|nowher/X/, s/[0-9a-f]{32}/ID/ for $hidden[1]{detail}, $missing[1]{detail};
is($hidden[1]{detail}, $missing[1]{detail}, 'and the answers are the same');
is( $gateway->ok($key{staff}, POST => '/v1/search', { query => 'pay', collection => 'secret' })
	  ->{results}[0]{uri},
	'pay', 'another key finds it');
is_deeply(
	[ map { $_->{name} } @{ $gateway->ok($key{web}, GET => '/v1/collections')->{collections} } ],
	[qw(default public)],
	'lists have what the role can read');

# A request for each route, with a value for each field that is required.
my %value = (
	string => 'x',
	integer => 1,
	boolean => JSON::PP::true,
	object => {},
	array => []);
my $description = $gateway->ok(undef, GET => '/openapi.json');
my ($routes, @told) = (0);
for my $path (sort keys %{ $description->{paths} })
{
	for my $method (sort keys %{ $description->{paths}{$path} })
	{
		my $route = $description->{paths}{$path}{$method};
		next if $route->{security};
		my ($url, @query) = ($path);
		for my $field (grep { $_->{required} } @{ $route->{parameters} // [] })
		{
			if ($field->{in} eq 'path') { $url =~ s/\{$field->{name}\}/1/ }
			else { push @query, "$field->{name}=1" }
		}
		$url .= '?' . join '&', @query if @query;
		my $content = ($route->{requestBody} // {})->{content} // {};
		my ($body, %headers);
		if (my $json = $content->{'application/json'})
		{
			my $schema = $json->{schema};
			my $properties = $schema->{properties};
			$body = { map { ($_ => $value{ $properties->{$_}{type} // 'string' }) }
				  @{ $schema->{required} // [] } };
		}
		elsif ($content->{'multipart/form-data'})
		{
			($body, %headers) = RagGateway::form('a.md', 'x');
		}
		my ($status, $answer) = $gateway->request($key{nobody}, uc $method, $url, $body, %headers);
		$routes++;
		push @told, "$method $path: $status" if $status != 403;
		my $detail = ref $answer eq 'HASH'
		  ? $answer->{detail} // $answer->{error_msg} // $answer->{error}{message}
		  : '';
		push @told, "$method $path: $detail"
		  if $status == 403 && $detail ne 'the role of the key may not do this';
	}
}
cmp_ok($routes, '>', 80, 'all routes are tried');
is_deeply(\@told, [], 'a role without rights gets 403 at every route, and learns nothing');
is($gateway->status($key{web}, POST => '/v1/collections', { name => 'new' }),
	403, 'a reader creates no collection');
is($gateway->status($key{adm}, POST => '/v1/collections', { name => 'new' }),
	201, 'an admin does');
is($gateway->status($key{web}, POST => '/v1/documents', {
	content => 'x', uri => 'x', collection => 'public' }), 403, 'a reader writes no document');

# -- the role does not leak from one request to the next
# ----------------------------------------

$node->safe_psql('postgres', q{
	CREATE ROLE leak IN ROLE rag_reader;
	CREATE FUNCTION leaking() RETURNS boolean LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM set_config('role', 'leak', false), set_config('rag.chat_model', 'x', false);
		RETURN true;
	END $$;
	CREATE POLICY leaking ON rag.documents FOR SELECT TO leak USING (leaking());
	GRANT SELECT ON rag.documents TO leak;
	CREATE POLICY slow ON rag.documents FOR SELECT TO adm USING (pg_sleep(20) IS NOT NULL);
});
$key{leak} = $gateway->key('leak');
sub roles
{
	my ($after) = @_;
	for my $role (qw(web staff web leak staff web))
	{
		is($gateway->ok($key{$role}, GET => '/v1/status')->{role}, $role, "$role $after");
	}
	return;
}
roles('after requests');
$gateway->request($key{leak}, GET => '/v1/documents') for 1 .. 4;
roles('after a function that set the role of the session');
$gateway->request($key{web}, POST => '/v1/search', { %$search, filter => { page => 'x' } })
  for 1 .. 4;
roles('after errors');
$began = time;
is($gateway->status($key{adm}, GET => '/v1/documents?collection=new'), 200,
	'an empty collection asks nothing of a slow policy');
$node->safe_psql('postgres', "SELECT rag_add_document('x', 'x', collection => 'new')");
my ($status) = $gateway->request($key{adm}, GET => '/v1/documents?collection=new');
is($status, 504, 'a request that takes too long gets 504');
roles('after a timeout');

# a client that goes away does not leave its statement behind
my ($host, $port) = split /:/, $gateway->{address};
my $socket = IO::Socket::INET->new(PeerAddr => $host, PeerPort => $port) or die $!;
print $socket "GET /v1/documents?collection=new HTTP/1.1\r\nHost: x\r\n"
  . "Authorization: Bearer $key{adm}\r\n\r\n";
my $sleeping = "SELECT count(*) FROM pg_stat_activity
	WHERE application_name = 'rag-gateway' AND wait_event = 'PgSleep'";
await('the statement runs', sub { ask($node, $sleeping) == 1 });
close $socket;
await('its statement is cancelled when the client has gone', sub { ask($node, $sleeping) == 0 });
roles('after a client that went away');
cmp_ok(
	ask($node, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'rag-gateway'"),
	'<=', 2, 'no connection is leaked');

# -- bad input
# ----------------------------------------

my @bad = (
	[ 404, GET => '/nothing' ],
	[ 404, GET => '/v1/sources/none' ],
	[ 405, GET => '/v1/search' ],
	[ 405, DELETE => '/v1/search' ],
	[ 400, POST => '/v1/search', '{' ],
	[ 400, POST => '/v1/search', '[]' ],
	[ 400, POST => '/v1/search', '{}' ],
	[ 400, POST => '/v1/search', '{"query": 1}' ],
	[ 400, POST => '/v1/search', '{"query": "a", "topk": 1}' ],
	[ 400, POST => '/v1/search', '{"query": "a", "top_k": 0}' ],
	[ 400, POST => '/v1/search', '{"query": "a", "top_k": 99999999999}' ],
	[ 400, POST => '/v1/search', '{"query": "a\u0000b"}' ],
	[ 400, POST => '/v1/search', '{"query": "a", "filter": {"key": 1, "operator": 2}}' ],
	[ 400, POST => '/v1/search?x=1', '{"query": "a"}' ],
	[ 400, GET => '/v1/documents?limit=many' ],
	[ 400, GET => '/v1/runs/x' ],
	[ 404, GET => '/v1/runs/1' ],
	[ 404, GET => '/v1/documents/x' ],
	[ 413, POST => '/v1/search', '{"query": "' . 'a' x 200_000 . '"}' ]);
for (@bad)
{
	my ($expected, $method, $path, $body) = @$_;
	my ($got, $answer) = $gateway->request($key{web}, $method, $path, $body);
	is($got, $expected, "$method $path " . substr($body // '', 0, 50) . " gets $expected");
	is($answer->{status}, $expected, '... with a body of RFC 9457');
	unlike($answer->{detail}, qr/SELECT|rag_api|rag_internal|stack/, '... that has no SQL');
}
is($gateway->{response}{headers}{connection},
	'close', 'a connection ends after a body that was not read');
is( $gateway->status($key{web}, POST => '/v1/search', 'query=a',
		'Content-Type' => 'application/x-www-form-urlencoded'),
	415, 'a body of another type gets 415');
(undef, my $answer) =
  $gateway->request($key{web}, POST => '/v1/search', '{"query": "a", "topk": 1}');
like($answer->{detail}, qr/^topk: is not a known field/, 'an unknown field is named');
like($answer->{hint}, qr/top_k/, '... and the known ones are');
(undef, $answer) =
  $gateway->request($key{web}, GET => '/nothing', undef, 'X-Request-Id' => 'my-id.1');
is($answer->{request_id}, 'my-id.1', 'the id of a request is kept');
is($gateway->{response}{headers}{'x-request-id'}, 'my-id.1', '... and sent back');
(undef, $answer) = $gateway->request($key{web}, GET => '/nothing', undef, 'X-Request-Id' => 'a b');
like($answer->{request_id}, qr/^[0-9a-f]{32}$/, 'an id that is not fit for a log is replaced');

# -- documents, sources, runs
# ----------------------------------------

my ($form, %type) = RagGateway::form('soup.md', "# Soup\n\nSoup is hot.",
	collection => 'public', metadata => '{"team": "kitchen"}', tags => 'food');
$node->safe_psql('postgres', 'DROP POLICY slow ON rag.documents');
my $added = $gateway->ok($key{staff}, POST => '/v1/documents', $form, %type);
is_deeply([ @$added{qw(success action uri)} ], [ JSON::PP::true, 'added', 'soup.md' ],
	'a file of a form is indexed');
my $document = $gateway->ok($key{web},
	GET => "/v1/documents/$added->{document_id}?collection=public&chunks=true");
is($document->{metadata}{team}, 'kitchen', 'a document has its metadata');
is($document->{chunks}[0]{chunk_index}, 0, '... and its chunks');
my $page = $gateway->ok($key{web}, GET => '/v1/documents?collection=public&limit=1');
is_deeply([ $page->{documents}[0]{uri}, $page->{next} ], [ 'canteen', 'canteen' ],
	'documents are listed in pages');
$page = $gateway->ok($key{web}, GET => "/v1/documents?collection=public&after=$page->{next}");
is_deeply([ $page->{documents}[0]{uri}, $page->{next} ], [ 'soup.md', undef ],
	'... one after the other');
is( $gateway->ok(
		$key{staff}, PATCH => "/v1/documents/$added->{document_id}",
		{ collection => 'public', title => 'Hot soup' })->{title},
	'Hot soup', 'a document is changed');
is($gateway->status($key{staff}, DELETE => "/v1/documents/$added->{document_id}?collection=public"),
	200, 'a document is deleted');
is($gateway->status($key{staff}, DELETE => "/v1/documents/$added->{document_id}?collection=public"),
	404, '... once');

# -- counts, metrics and the log
# ----------------------------------------

await('calls are counted',
	sub { ask($node, "SELECT calls > 10 FROM rag.api_keys WHERE name = 'web'") eq 't' });
is(ask($node, "SELECT last_used_at > now() - interval '5 minutes' FROM rag.api_keys
	WHERE name = 'web'"), 't', 'the last use is known');
my $metrics = $gateway->ok(undef, GET => '/metrics');
like($metrics, qr/^rag_gateway_wrong_keys_total [1-9]/m, 'wrong keys are counted');
like($metrics, qr/^rag_gateway_requests_total\{method="POST",route="\/v1\/search",status="200"\}/m,
	'requests are counted');
unlike($metrics, qr/rag_documents/, 'without a key metrics have nothing of the database');
like($gateway->ok($key{staff}, GET => '/metrics'),
	qr/^rag_documents\{database="postgres",collection="secret"\} 1$/m,
	'with a key they have what its role can read');
unlike($gateway->ok($key{web}, GET => '/metrics'), qr/secret/, '... and no more');
my $log = $gateway->log;
unlike($log, qr/[0-9a-f]{64}|canteen open/, 'the log has no secrets and no bodies');
like($log, qr/rag_[0-9a-f]{16}/, 'the log has the public part of keys');

# -- events
# ----------------------------------------

my $listening = start_events($key{adm});
my $deaf = start_events($key{web});
$node->safe_psql('postgres', "SET ROLE adm; SELECT rag_grant_collection('new', 'adm', 'write')");
ok($gateway->ok($key{adm}, POST => '/v1/sources', {
	name => 'site', kind => 'website', spec => { url => 'https://www.example.org/' },
	collection => 'new', suspend => JSON::PP::true }), 'a source is created');
my $event = read_until($listening, qr/Suspended/);
like($event, qr/event: rag_events\ndata: \{.*"site".*\}/, 'events arrive');
$gateway->ok($key{adm}, DELETE => '/v1/sources/site');
read_until($listening, qr/Deleted/);
unlike(read_now($deaf), qr/site/, 'events of a source that a role cannot see do not');
close $_ for $listening, $deaf;

sub start_events
{
	my ($with) = @_;
	my $stream = IO::Socket::INET->new(PeerAddr => $host, PeerPort => $port) or die $!;
	print $stream "GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer $with\r\n\r\n";
	read_until($stream, qr/text\/event-stream/);
	# the program listens once there is a client
	await('the gateway listens for events', sub {
		ask($node, "SELECT count(*) FROM pg_stat_activity WHERE query = 'LISTEN rag_events'
			AND state = 'idle'") == 1 });
	return $stream;
}

sub read_now
{
	my ($stream) = @_;
	$stream->blocking(0);
	my $text = '';
	1 while sysread $stream, $text, 65536, length $text;
	return $text;
}

sub read_until
{
	my ($stream, $pattern) = @_;
	my $text = '';
	await("$pattern arrives", sub { $text .= read_now($stream); return $text =~ $pattern });
	return $text;
}

# -- the server is away, and comes back
# ----------------------------------------

$node->restart;
is($gateway->status($key{web}, POST => '/v1/search', $search), 200, 'a restart is no matter');
$node->stop;
($status) = $gateway->request($key{web}, POST => '/v1/search', $search);
is($status, 503, 'without a server requests get 503');
is($gateway->{response}{headers}{'retry-after'}, 5, '... and when to try again');
is($gateway->status(undef, GET => '/readyz'), 503, 'the program is not ready');
is($gateway->status(undef, GET => '/healthz'), 200, '... but it runs');
$node->start;
is($gateway->status($key{web}, POST => '/v1/search', $search), 200, 'it goes on with the server');
is($gateway->status(undef, GET => '/readyz'), 200, 'the program is ready');

# -- a standby
# ----------------------------------------

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('gateway_standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
my $reader = RagGateway->start($standby);
is($reader->status($key{web}, POST => '/v1/search', $search), 200, 'a standby answers searches');
my $new = { content => 'x', uri => 'x', collection => 'public' };
is($reader->status($key{staff}, POST => '/v1/documents', $new), 503, 'it writes nothing');
is($reader->status($wrong[4][1], POST => '/v1/search', $search), 401, 'it checks keys');
is($reader->stop, 0, 'the program ends with status 0');

# -- limits, an anonymous role, and a graceful stop
# ----------------------------------------

my $limited = RagGateway->start($node, rate_limit => 3, anonymous_role => 'web');
is($limited->status($key{staff}, GET => '/v1/status'), 200, 'a request within the limit')
  for 1 .. 3;
($status) = $limited->request($key{staff}, GET => '/v1/status');
is($status, 429, 'a request beyond the limit gets 429');
like($limited->{response}{headers}{'retry-after'}, qr/^\d+$/, '... and when to try again');
is($limited->ok(undef, GET => '/v1/status')->{role}, 'web',
	'requests without a key have the anonymous role');
is($limited->stop, 0, 'the program ends with status 0');

$node->safe_psql('postgres', q{CREATE POLICY slow ON rag.documents FOR SELECT TO adm
	USING (pg_sleep(1) IS NOT NULL)});
$socket = IO::Socket::INET->new(PeerAddr => $host, PeerPort => $port) or die $!;
print $socket "GET /v1/documents?collection=new HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
  . "Authorization: Bearer $key{adm}\r\n\r\n";
await('a request runs', sub { ask($node, $sleeping) == 1 });
is($gateway->stop, 0, 'SIGTERM ends the program');
like(do { local $/; <$socket> }, qr/^HTTP\/1.1 200/, '... after its requests have ended');

# -- the password file
# ----------------------------------------

$node->safe_psql('postgres', "ALTER ROLE rag_gateway PASSWORD 'a:b'");
my $hba = $node->data_dir . '/pg_hba.conf';
my $rules = PostgreSQL::Test::Utils::slurp_file($hba);
PostgreSQL::Test::Utils::append_to_file("$hba.new",
	"local all rag_gateway scram-sha-256\n$rules");
rename "$hba.new", $hba or die $!;
$node->reload;
my $passfile = RagCluster::temp_folder() . '/pgpass';
my $hostname = $node->host =~ s/([:\\])/\\$1/gr;
PostgreSQL::Test::Utils::append_to_file($passfile,
	"$hostname:1:*:*:wrong\n$hostname:" . $node->port . ":postgres:rag_gateway:a\\:b\n");
chmod 0600, $passfile;
my $with_password = RagGateway->start($node, passfile => $passfile);
is($with_password->status(undef, GET => '/readyz'), 200, 'the password is that of the file');
$with_password->stop;
chmod 0644, $passfile;
my $without = RagGateway->start($node, passfile => $passfile);
is($without->status(undef, GET => '/readyz'), 503, 'a file that others may read is not used');
like($without->log, qr/WARNING: password file .* others may read it/, '... which a warning tells');
$without->stop;

done_testing();
