# Sources on the web, with a real server on loopback: listed files and linked pages, the requests of
# a second sync, rejected addresses, and failures of single documents.
use strict;
use warnings;
use Digest::MD5 qw(md5_hex);
use IO::Socket::INET;
use Test::More;
use RagCluster;

# -- a server for the files below a folder, with ETags and a log of requests and answers
my $www = temp_folder();
my $log = temp_folder() . '/requests';
my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 20, ReuseAddr => 1)
  or die "cannot listen: $!";
my $origin = 'http://127.0.0.1:' . $listener->sockport;
my %types = (
	html => 'text/html; charset=utf-8',
	md => 'text/markdown',
	txt => 'text/plain',
	xml => 'application/xml',
	png => 'image/png');

sub answer
{
	my ($connection) = @_;
	my ($target) = (<$connection> // '') =~ m{^GET (\S+) } or return;
	my %headers;
	while (defined(my $line = <$connection>))
	{
		last if $line =~ /^\r?\n/;
		$headers{ lc $1 } = $2 if $line =~ /^([^:]+): (.*?)\r?\n/;
	}
	my $path = $target =~ s{/\z}{/index.html}r;
	my ($status, $type, $body, $more) =
	  ('200 OK', $types{ ($path =~ /\.(\w+)\z/)[0] // '' } // 'text/plain', '', '');
	if ($path eq '/moved.md') { ($status, $more) = ('302 Found', "Location: /guide.md\r\n") }
	elsif ($path eq '/inward.md')
	{
		($status, $more) = ('302 Found', "Location: http://169.254.169.254/latest/meta-data/\r\n");
	}
	elsif (-e "$www$path.status") { $status = slurp("$www$path.status") }
	elsif (-f "$www$path")
	{
		$body = slurp("$www$path");
		my $tag = '"' . md5_hex($body) . '"';
		$more = "ETag: $tag\r\n";
		($status, $body) = ('304 Not Modified', '') if ($headers{'if-none-match'} // '') eq $tag;
	}
	else { $status = '404 Not Found' }
	open my $file, '>>', $log or die $!;
	print $file "$target $status\n";
	close $file;
	print $connection "HTTP/1.1 $status\r\n${more}Content-Type: $type\r\nContent-Length: ",
	  length $body, "\r\nConnection: close\r\n\r\n$body";
	return;
}

sub slurp
{
	my ($path) = @_;
	open my $file, '<:raw', $path or die "$path: $!";
	local $/;
	return <$file> // '';
}

my $server = fork // die $!;
if ($server == 0)
{
	$SIG{PIPE} = 'IGNORE';
	while (1)
	{
		my $connection = $listener->accept or next;
		answer($connection);
		close $connection;
	}
}
END { local $?; kill 'TERM', $server and waitpid $server, 0 if $server }

# Requests that the server has received since the last call, sorted.
sub asked
{
	my @lines = -e $log ? sort split /\n/, slurp($log) : ();
	unlink $log;
	return \@lines;
}

sub page
{
	my ($title, $text, @links) = @_;
	my $links = join '', map { "<a href=\"$_\">$_</a> " } @links;
	return "<!DOCTYPE html><html><head><title>$title</title></head><body><main>"
	  . "<h1>$title</h1><p>$text</p>$links</main></body></html>\n";
}

my $node = rag_node('web_sources');
my $counts =
  'documents_added, documents_updated, documents_deleted, documents_unchanged, documents_failed';

# Syncs a source and checks the counts of the run: added updated deleted unchanged failed.
sub sync_does
{
	my ($source, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $result = run_sql($node, "SELECT rag_sync('$source')");
	is(run_row($node, $source, $counts) =~ tr/|/ /r, $expected, $name) or diag($result->{err});
	return $result;
}

sub failures
{
	my ($source) = @_;
	return ask(
		$node, "SELECT e.uri, e.message FROM rag.run_errors e
		WHERE run_id = (SELECT max(run_id) FROM rag.runs WHERE source = '$source') ORDER BY 1"
	) =~ s/\Q$origin\E//gr;
}

sub uris
{
	my ($source) = @_;
	return ask($node,
		"SELECT string_agg(uri, ' ' ORDER BY uri) FROM rag.documents WHERE source = '$source'") =~
	  s/\Q$origin\E//gr;
}

# -- a list of files
write_file("$www/guide.md", "# Bread\n\nBread is baked in the morning.\n");
write_file("$www/notes.txt", "Rolls are baked at noon.\n");
write_file("$www/page.html", page('Cake', 'Cake is baked in the evening.'));
my $here = write_file(temp_folder() . '/here.md', "# Here\n\nA file on the server.\n");
my @endpoints = map { "\"$origin/$_\"" } qw(guide.md notes.txt page.html missing.md);
my $endpoints = join ', ', @endpoints, "\"file://$here\"";
$node->safe_psql('postgres',
	qq{SELECT rag_create_source('files', 'static', '{"endpoints": [$endpoints]}')});

sync_does('files', '1 0 0 0 4',
	'without rag.allowed_private_hosts no loopback address is connected to');
like(
	failures('files'),
	qr/^\/guide\.md\|connections to 127\.0\.0\.1 are not allowed: it is a loopback address$/m,
	'the error names the rejected address');
is( ask($node, "SELECT count(*) FROM rag.run_errors WHERE hint LIKE '%rag.allowed_private_hosts%'"),
	'4',
	'the hint names rag.allowed_private_hosts');
is_deeply(asked(), [], 'the server on loopback received no request');
$node->safe_psql('postgres',
	qq{SELECT rag_create_source('none', 'static', '{"endpoints": [$endpoints[0], $endpoints[1]]}')}
);
error_like(
	run_sql($node, "SELECT rag_sync('none')"),
	'08006', 'no document of the source could be fetched',
	'rag.allowed_private_hosts', 'a run that could not fetch anything fails');
is(run_row($node, 'none', 'phase, documents_failed'),
	'Failed|2', 'each document that could not be fetched has an error');
$node->safe_psql('postgres', "SELECT rag_drop_source('none')");

configure($node, 'rag.allowed_private_hosts', '127.0.0.1');
sync_does('files', '3 0 0 1 1', 'files are fetched from the web and from the server');
is( failures('files'),
	'/missing.md|the server answered 404 Not Found',
	'a missing file has its own error');
is( ask($node, "SELECT content FROM rag_search('when is bread baked', top_k => 1)"),
	"# Bread\n\nBread is baked in the morning.",
	'a search finds the fetched documents');
asked();

sync_does('files', '0 0 0 4 1', 'a second sync changes nothing');
is_deeply(
	asked(),
	[
		'/guide.md 304 Not Modified',
		'/missing.md 404 Not Found',
		'/notes.txt 304 Not Modified',
		'/page.html 304 Not Modified'
	],
	'a second sync fetches no unchanged file');

write_file("$www/notes.txt", "Rolls are baked at midnight.\n");
sync_does('files', '0 1 0 3 1', 'a changed file is fetched again');
asked();
unlink "$www/guide.md" or die $!;
write_file("$www/notes.txt.status", '500 Internal Server Error');
sync_does('files', '0 0 0 2 3', 'missing and broken files fail');
is( failures('files'),
	"/guide.md|the server answered 404 Not Found\n/missing.md|the server answered 404 Not Found\n"
	  . '/notes.txt|the server answered 500 Internal Server Error',
	'each failed file has its own error message');
is(scalar(grep { /notes/ } @{ asked() }), 3, 'a file with a server error is requested three times');
is( ask($node,
		"SELECT count(*) FROM rag.chunks WHERE source = 'files'
			AND (uri LIKE '%/guide.md' OR uri LIKE '%/notes.txt')"
	),
	'2',
	'failed files keep their indexed text');
unlink "$www/notes.txt.status" or die $!;
write_file("$www/guide.md", "# Bread\n\nBread is baked in the morning.\n");

my $two = join ', ', map { "\"$origin/$_\"" } qw(moved.md inward.md);
$node->safe_psql('postgres',
	qq{SELECT rag_create_source('moved', 'static', '{"endpoints": [$two]}')});
sync_does('moved', '1 0 0 0 1', 'permitted redirects are followed');
is( failures('moved'),
	'/inward.md|connections to 169.254.169.254 are not allowed: it is a link-local address',
	'redirects to other addresses are not followed');
is(ask($node, "SELECT metadata->>'final_url' FROM rag.documents WHERE source = 'moved'"),
	"$origin/guide.md", 'a redirected document records its final address');
$node->safe_psql('postgres',
	qq{SELECT rag_create_source('one', 'markdown', '{"uri": "$origin/guide.md"}')});
sync_does('one', '1 0 0 0 0', 'a markdown source can read a file on the web');

$node->safe_psql('postgres', 'CREATE ROLE librarian LOGIN; GRANT rag_admin TO librarian');
error_like(
	run_sql(
		$node,
		qq{SELECT rag_create_source('other', 'static', '{"endpoints": ["file://$here"]}')},
		user => 'librarian'),
	'42501',
	'permission denied',
	undef,
	'files on the server require pg_read_server_files');
is( run_sql(
		$node,
		qq{SELECT rag_create_source('other', 'static', '{"endpoints": ["$origin/guide.md"]}')},
		user => 'librarian')->{rc},
	0,
	'files on the web require rag_admin only');

# -- a website
write_file("$www/robots.txt",
	"User-agent: *\nDisallow: /site/private/\nSitemap: $origin/map.xml\n");
write_file("$www/map.xml",
		"<urlset><url><loc>$origin/site/hidden.html</loc></url>"
	  . "<url><loc>$origin/page.html</loc></url></urlset>\n");
write_file(
	"$www/site/index.html",
	page(
		'Start', 'The bakery.',
		'bread.html', 'rolls.html#top',
		'private/recipe.html', 'dead.html',
		'logo.png', 'http://169.254.169.254/'));
write_file("$www/site/bread.html", page('Bread', 'Bread of the site.', '/site/', 'oven.html'));
write_file("$www/site/oven.html", page('Oven', 'The oven is hot.', 'deep.html'));
write_file("$www/site/deep.html", page('Deep', 'Too far away.'));
write_file("$www/site/rolls.html", page('Rolls', 'Rolls of the site.', 'bread.html?print=1'));
write_file("$www/site/hidden.html", page('Hidden', 'In the sitemap alone.'));
write_file("$www/site/private/recipe.html", page('Recipe', 'A secret.'));
write_file("$www/site/logo.png", "\x89PNG");
$node->safe_psql('postgres', q{SELECT rag_create_collection('site')});
$node->safe_psql(
	'postgres',
	qq{SELECT rag_create_source('site', 'website',
		'{"url": "$origin/site/", "include": ["/site/"], "delay": 0}', 'site')}
);
asked();
sync_does('site', '5 0 0 0 0', 'pages of a website are found by links and sitemap');
is( uris('site'),
	'/site/ /site/bread.html /site/hidden.html /site/oven.html /site/rolls.html',
	'depth, patterns and robots.txt limit the pages');
is_deeply([ grep { /private|deep|page\.html|169/ } @{ asked() } ],
	[], 'no other page was requested');
is( ask($node, "SELECT title FROM rag_search('is the oven hot', collection => 'site', top_k => 1)"),
	'Oven',
	'a search finds the pages');
sync_does('site', '0 0 0 5 0', 'a second sync of the website changes nothing');
is_deeply(
	[ grep { /304/ } @{ asked() } ],
	['/site/oven.html 304 Not Modified'],
	'an unchanged page is not sent again');

write_file("$www/site/index.html", page('Start', 'The new bakery.', 'bread.html'));
unlink "$www/site/hidden.html" or die $!;
sync_does('site', '0 1 2 2 0', 'pages that are no longer linked are removed');
write_file("$www/site/bread.html.status", '503 Service Unavailable');
sync_does('site', '0 0 0 1 1', 'pages behind a failed page are not removed');
is(uris('site'), '/site/ /site/bread.html /site/oven.html', 'a failed page keeps all documents');
write_file("$www/robots.txt.status", '503 Service Unavailable');
error_like(
	run_sql($node, "SELECT rag_sync('site')"),
	'08006', 'could not fetch .*robots.txt',
	undef, 'nothing is fetched while robots.txt fails');
unlink "$www/robots.txt.status", "$www/site/bread.html.status" or die $!;
unlink "$www/site/index.html" or die $!;
error_like(
	run_sql($node, "SELECT rag_sync('site')"),
	'08006', 'the first page.*404',
	undef, 'the sync fails if the first page fails');
is(uris('site'), '/site/ /site/bread.html /site/oven.html', 'the sync that failed removes nothing');

$node->stop;
done_testing();
