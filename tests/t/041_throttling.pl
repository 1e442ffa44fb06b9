# Servers that throttle requests: the run reports it and the time to wait. Servers that echo the
# secret they receive: no error, view or log contains it.
use strict;
use warnings;
use IO::Socket::INET;
use MIME::Base64 qw(encode_base64);
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;

# -- a server on loopback: a file has the answer to a path, status and headers; {} is replaced by
# the Authorization header
my $answers = temp_folder();
my $log = temp_folder() . '/requests';
my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 20, ReuseAddr => 1)
  or die "cannot listen: $!";
my $origin = 'http://127.0.0.1:' . $listener->sockport;

sub reply
{
	my ($connection) = @_;
	my ($path) = (<$connection> // '') =~ m{^\w+ (\S+) } or return;
	my $authorization = '';
	while (defined(my $line = <$connection>))
	{
		last if $line =~ /^\r?\n/;
		$authorization = $1 if $line =~ /^authorization: (.*?)\r?\n/i;
	}
	open my $file, '>>', $log or die $!;
	print $file "$path $authorization\n";
	close $file;
	my $name = $path =~ tr{/?=}{_}r;
	my $answer = -f "$answers/$name" ? slurp_file("$answers/$name") : "404 Not Found\n";
	$answer =~ s/\{\}/$authorization/g;
	my ($status, @headers) = split /\n/, $answer;
	my $body = $status =~ /^200/ ? "# Found\n\nA text of $path.\n" : '';
	print $connection join "\r\n", "HTTP/1.1 $status", @headers, 'Content-Length: ' . length $body,
	  'Connection: close', '', $body;
	return;
}

my $server = fork // die $!;
if ($server == 0)
{
	$SIG{PIPE} = 'IGNORE';
	while (1)
	{
		my $connection = $listener->accept or next;
		reply($connection);
		close $connection;
	}
}
END { local $?; kill 'TERM', $server and waitpid $server, 0 if $server }

sub answers
{
	my ($path, @lines) = @_;
	write_file("$answers/" . ($path =~ tr{/?=}{_}r), join "\n", @lines, '');
	return;
}

# Requests that the server has received since the last call.
sub asked
{
	my @lines = -e $log ? split /\n/, slurp_file($log) : ();
	unlink $log;
	return \@lines;
}

my $node = rag_node('throttling', conf => "rag.allowed_private_hosts = '127.0.0.1'");

sub create_source
{
	my ($name, $kind, $spec, $more) = @_;
	$node->safe_psql('postgres',
		"SELECT rag_create_source('$name', '$kind', '$spec'" . ($more // '') . ')');
	return;
}

# Syncs a source, which fails, and checks whether the run was throttled and the time to wait.
sub fails
{
	my ($source, $sqlstate, $message, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	error_like(run_sql($node, "SELECT rag_sync('$source')"),
		$sqlstate, $message, undef, "$name: the session reports the throttling");
	my $columns =
	  "phase, errors->0->>'sqlstate', errors->0->'throttled', errors->0->'retry_after_seconds'";
	is( run_row($node, $source, $columns),
		"Failed|$sqlstate|$expected",
		"$name: the run records the throttling");
	return;
}

# -- files
my $endpoints = join ', ', map { "\"$origin/$_\"" } qw(a.md b.md c.md);
create_source('files', 'static', qq({"endpoints": [$endpoints]}));
# two files of a server are fetched at once
answers('/a.md', '429 Too Many Requests', 'Retry-After: 120');
answers('/b.md', '429 Too Many Requests', 'Retry-After: 60');
answers('/c.md', '200 OK', 'Content-Type: text/markdown');
fails(
	'files', '08004',
	'the server limits the rate of requests and asks to wait 120 s', 'true|120',
	'429 with Retry-After');
is_deeply([ sort @{ asked() } ], [ '/a.md ', '/b.md ' ],
	'429 with Retry-After: no other files are requested');
is(run_row($node, 'files', 'documents_failed'),
	'3', '429 with Retry-After: each document has an error');
like(
	ask($node, "SELECT array_to_string(errors, ' ') FROM rag.sources WHERE name = 'files'"),
	qr{ \S+/a\.md: .* \S+/b\.md: .* \S+/c\.md: },
	'429 with Retry-After: the errors are in the order of the definition');

answers(
	"/$_.md",
	'503 Service Unavailable',
	'Date: Tue, 22 Sep 2026 12:00:00 GMT',
	$_ eq 'a' ? 'Retry-After: Tue, 22 Sep 2026 13:00:00 GMT' : 'Retry-After: 60') for qw(a b c);
fails(
	'files', '08004',
	'the server limits the rate of requests and asks to wait 3600 s', 'true|3600',
	'503 with Retry-After: the longest time counts');
is_deeply([ sort @{ asked() } ], [ '/a.md ', '/b.md ', '/c.md ' ],
	'503 with Retry-After: other documents are requested');

answers('/a.md', '429 Too Many Requests');
answers("/$_.md", '404 Not Found') for qw(b c);
fails(
	'files', '08004',
	'the server limits the rate of requests', 'true|0',
	'429 without Retry-After, with another failure');

answers('/a.md', '503 Service Unavailable');
fails(
	'files', '08006',
	'no document of the source could be fetched', '|',
	'503 without Retry-After is an ordinary failure');

answers('/a.md', '429 Too Many Requests', 'Retry-After: 120');
answers('/b.md', '200 OK', 'Content-Type: text/markdown');
$node->safe_psql('postgres', "SELECT rag_drop_source('files')");
create_source('files', 'static', qq({"endpoints": ["$origin/b.md", "$origin/a.md"]}));
is(run_sql($node, "SELECT rag_sync('files')")->{rc},
	0, 'a run that fetched some documents is not throttled');
like(
	ask($node,
		"SELECT message FROM rag.run_errors WHERE run_id = (SELECT max(run_id) FROM rag.runs
			WHERE source = 'files')"
	),
	qr/429 Too Many Requests and asks to wait \d+ s/,
	'a run that fetched some documents lists the others as errors');

create_source('one', 'markdown', qq({"uri": "$origin/a.md"}));
fails(
	'one', '08004',
	'the server limits the rate of requests and asks to wait 120 s', 'true|120',
	'429 for a single file');

# -- a website, a repository
answers('/robots.txt', '429 Too Many Requests', 'Retry-After: 90');
create_source('site', 'website', qq({"url": "$origin/site/", "delay": 0}));
fails(
	'site', '08004',
	'the server of .*/robots.txt limits the rate of requests and asks to wait 90 s',
	'true|90', '429 for a website');
answers('/git/info/refs?service=git-upload-pack', '503 Service Unavailable', 'Retry-After: 45');
create_source('repository', 'git', qq({"repositoryURL": "$origin/git"}));
fails(
	'repository', '08004',
	'the server of .*/git limits the rate of requests and asks to wait 45 s', 'true|45',
	'429 for a repository');

# -- servers that echo the secret
my $secret = 'Tok3n/of+the=source';
my @forms = (
	$secret, lc $secret,
	$secret =~ s{([^A-Za-z0-9])}{sprintf '%%%02X', ord $1}ger,
	encode_base64($secret, ''),
	encode_base64("x-access-token:$secret", ''));
$node->safe_psql('postgres', "SELECT rag_create_secret('token', '$secret')");
answers('/e.md', '200 OK', 'Content-Encoding: {}');
answers('/echo/info/refs?service=git-upload-pack', '200 OK', 'Content-Type: x/{}');
create_source('echo', 'static', qq({"endpoints": ["$origin/e.md"]}), ", credentials => 'token'");
create_source('echoing', 'git', qq({"repositoryURL": "$origin/echo"}), ", credentials => 'token'");
asked();
my $said = join "\n",
  map { $_->{err} } map { run_sql($node, "SELECT rag_sync('$_')") } qw(echo echoing);
like(
	$said,
	qr/bearer \[redacted\].*Basic \[redacted\]/s,
	'the session shows the response of the server without the secret');
is_deeply(
	[ map { (split / /)[2] } @{ asked() } ],
	[ $forms[0], $forms[4] ],
	'the server received the secret');
my $views = $node->safe_psql(
	'postgres',
	'SELECT * FROM rag.runs; SELECT * FROM rag.run_errors; SELECT * FROM rag.documents;
		SELECT * FROM rag.sources'
);
like($views, qr/\[redacted\]/, 'the views show the response without the secret');
my $server_log = slurp_file($node->logfile);
like(
	$server_log,
	qr/rag-engine: ERROR .*\[redacted\]/,
	'the log shows the response without the secret');
is(scalar(grep { index("$said$views$server_log", $_) >= 0 } @forms),
	0, "neither session nor views nor log contain the secret in any form");

$node->stop;
done_testing();
