# The files of the console of rag-gateway: headers, caches, what they ask of other hosts, and that
# its forms of sources have the keys that the kinds have.
use strict;
use warnings;
use File::Basename qw(dirname);
use IO::Socket::INET;
use JSON::PP ();
use Test::More;
use RagCluster;
use RagGateway;

my $node = rag_node('console');
$node->safe_psql('postgres', q{CREATE ROLE adm IN ROLE rag_admin;
	CREATE ROLE web IN ROLE rag_reader;
	SELECT rag_create_collection('secret');
	SELECT rag_grant_collection('default', 'adm', 'write'),
		rag_grant_collection('default', 'web', 'read');
	SELECT rag_create_source('site' || i, 'website', '{"url": "https://www.example.org/"}',
		'default', suspend => true) FROM generate_series(1, 5) i;
	SELECT rag_add_document('Keys are rotated every 90 days.', 'keys', title => 'Rotation')});
my $gateway = RagGateway->start($node, head_timeout => 1);
my $key = $gateway->key('adm');
my $web = $gateway->key('web');

# -- files
my %files = (
	'/' => 'text/html; charset=utf-8',
	'/console.js' => 'text/javascript; charset=utf-8',
	'/console.css' => 'text/css; charset=utf-8',
	'/console.svg' => 'image/svg+xml');
my %text;
for my $path (sort keys %files)
{
	$text{$path} = $gateway->ok(undef, GET => $path);
	my $header = $gateway->{response}{headers};
	is($header->{'content-type'}, $files{$path}, "$path has its type");
	is($header->{'x-content-type-options'}, 'nosniff', "$path: the type is not guessed");
	is($header->{'cache-control'}, 'no-cache', "$path: a cache asks each time");
	my $etag = $header->{etag};
	like($etag, qr/^"[0-9a-f]{32}"$/, "$path has a tag");
	for my $known ($etag, "W/$etag", qq{"x", $etag})
	{
		is($gateway->status(undef, GET => $path, undef, 'If-None-Match' => $known), 304,
			"$path is not sent again");
		is($gateway->{response}{content} // '', '', '... and 304 has no body');
	}
	is($gateway->status(undef, GET => $path, undef, 'If-None-Match' => '"x"'), 200,
		"$path is sent if it has changed");
	is($gateway->status(undef, HEAD => $path), 200, "$path has HEAD");
	is($gateway->status(undef, POST => $path, {}), 405, "$path cannot be written");
	my $policy = $header->{'content-security-policy'};
	like($policy, qr/default-src 'none'; script-src 'self'; style-src 'self'/,
		"$path: only files of the program run");
	unlike($policy, qr/unsafe|http|\*/, '... and nothing else does');
	is($header->{'x-frame-options'}, 'DENY', "$path is in no frame");
	is($header->{'referrer-policy'}, 'no-referrer', "$path: other hosts learn no address");
}
unlike($text{'/'}, qr/<script(?![^>]* src=)|<style| style=| on\w+=/,
	'the page has no script or style of its own');
my %allowed = map { $_ => 1 } qw(http://www.w3.org http://www.w3.org/1999/xhtml
  http://www.w3.org/2000/svg http://www.w3.org/1998/Math/MathML http://www.w3.org/1999/xlink);
for my $path (sort keys %text)
{
	my @named = grep { !$allowed{$_} && !m{^https?://[\w.]*example\.} }
	  $text{$path} =~ m{(https?://[^\s"'`\\<>)]+)}g;
	is("@named", '', "$path names no other host");
}
unlike($text{'/console.js'}, qr/\beval\(|new Function/, 'no text becomes a script');
my $uses = () = $text{'/console.js'} =~ /innerHTML/g;
cmp_ok($uses, '<=', 3, 'HTML of a text is set by the library alone');
cmp_ok(length $text{'/console.js'}, '<', 120_000, 'the script is small');
is($gateway->status(undef, GET => '/console.map'), 404, 'there are no other files');

# -- what the console asks
my $access = $gateway->ok($web, GET => '/v1/access');
is_deeply([ @$access{qw(role is_admin is_standby)} ],
	[ 'web', JSON::PP::false, JSON::PP::false ], 'a role learns its rights');
is_deeply($access->{collections}, [ { name => 'default', write => JSON::PP::false } ],
	'... and the collections that it can read');
ok($gateway->ok($key, GET => '/v1/access')->{collections}[0]{write}, 'an admin may write');
my $page = $gateway->ok($key, GET => '/v1/sources?limit=2&contains=SITE');
is_deeply([ (map { $_->{name} } @{ $page->{sources} }), $page->{next} ],
	[qw(site1 site2 site2)], 'sources are listed in pages');
$page = $gateway->ok($key, GET => '/v1/sources?limit=3&phase=Suspended&after=site2');
is_deeply([ (map { $_->{name} } @{ $page->{sources} }), $page->{next} ],
	[ qw(site3 site4 site5), undef ], '... one after the other');
is(@{ $gateway->ok($web, GET => '/v1/sources')->{sources} }, 0, 'others see none');
is_deeply(
	[ map { $_->{uri} }
		  @{ $gateway->ok($web, GET => '/v1/documents?contains=ROTAT')->{documents} } ],
	['keys'], 'documents are found by their title');
my $overview = $gateway->ok($web, GET => '/v1/overview');
is($overview->{sizes}{documents}, 1, 'the overview counts documents');
is_deeply($overview->{sources}, {}, '... and only sources that the role can see');
is_deeply($gateway->ok($key, GET => '/v1/overview')->{sources}, { Suspended => 5 },
	'... by their phase');
$gateway->ok($web, POST => '/v1/search', { query => 'keys' }) for 1 .. 3;
$gateway->status($web, POST => '/v1/search', { query => 'keys', top_k => 0 });
my $searches = $gateway->ok($web, GET => '/v1/search-stats');
is($searches->{searches}[0]{calls}, 3, 'searches are counted by the server');
my ($count, $errors) = (0, 0);
$count += $_->{count}, $errors += $_->{errors} for @{ $searches->{minutes} };
is_deeply([ $count, $errors ], [ 3, 1 ], '... and by the gateway');
my $indexes = $gateway->ok($key, GET => '/v1/collections/default/indexes')->{indexes};
my ($words) = grep { $_->{method} eq 'rag_bm25' } @$indexes;
is($words->{details}{documents}, 1, 'the index of words is described');
is($gateway->status($web, GET => '/v1/collections/secret/indexes'), 404,
	'... not that of a hidden collection');
is($gateway->status($web, POST => '/v1/collections/default/recall', {}), 404,
	'there is no index of vectors to measure');
is_deeply($gateway->ok($web, GET => '/v1/model-usage')->{days}, [], 'no model was called');

# -- the keys of the kinds of sources
my $file = dirname(__FILE__) . '/../kinds.json';
open my $kinds_file, '<', $file or die $!;
my $kinds = JSON::PP->new->utf8->decode(do { local $/; <$kinds_file> });
is_deeply([ sort keys %$kinds ],
	[qw(azblob folder gcs git markdown s3 static table website)], 'each kind has a form');
my %value = (
	text => 'x', texts => ['x'], number => 1, boolean => JSON::PP::true,
	object => { x => 1 });
for my $kind (sort keys %$kinds)
{
	my %spec = map { ($_->{name} => $_->{choices} ? $_->{choices}[0] : $value{ $_->{type} }) }
	  @{ $kinds->{$kind}{keys} };
	my $known = problems($kind, \%spec);
	unlike($known, qr/unknown/i, "$kind: the form has only keys that exist");
	$spec{no_such_key} = 'x';
	like(problems($kind, \%spec), qr/no_such_key/, '... and others would be told');
	my $required = problems($kind, {});
	for (grep { $_->{required} } @{ $kinds->{$kind}{keys} })
	{
		like($required, qr/\b$_->{name}\b/, "$kind: $_->{name} is required");
	}
}

sub problems
{
	my ($kind, $spec) = @_;
	my $answer =
	  $gateway->ok($key, POST => '/v1/sources/validate', { kind => $kind, spec => $spec });
	return join '; ', map { "$_->{field}: $_->{problem}" } @{ $answer->{problems} };
}

# -- a client that does not send the head of its request
my $slow = IO::Socket::INET->new(PeerAddr => $gateway->{address}) or die $!;
print $slow "GET /healthz HTTP/1.1\r\nHost: x\r\n";
is(join('', <$slow>), '', 'a slow head ends the connection');
is($gateway->status(undef, GET => '/healthz'), 200, '... and no other');

done_testing();
