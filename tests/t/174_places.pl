# Places of documents that addresses can name, from the ids of a page to citations, through
# rebuilds, bundles and checks for drift. Also what a crawl tells while it runs.
use strict;
use warnings;
use IO::Socket::INET;
use Test::More;
use RagCluster;
use RagTest;

# -- a server for pages, which waits with /slow until a file is there
my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 20, ReuseAddr => 1)
  or die "cannot listen: $!";
my $origin = 'http://127.0.0.1:' . $listener->sockport;
my $go_on = temp_folder() . '/go-on';
my $text = join ' ', ('Rotate the keys in May, and tell everybody.') x 12;
my %pages = (
	'/' => '<title>Keys</title><h1 id="top">Keys</h1><p>Keys open doors.</p>'
	  . "<section id='rotate'><h2>Rotation<a class='headerlink' href='#rotate'>#</a></h2>"
	  . "<p>$text</p><h3 id='a b'>Odd</h3><p>$text</p></section><h2>Nameless</h2><p>$text</p>"
	  . '<a href="/two.html">Two</a> <a href="/slow">Slow</a> <a href="/gone">Gone</a>',
	'/two.html' => '<title>Two</title><p>A page without headings.</p>',
	'/slow' => '<title>Slow</title><p>A page that takes its time.</p>');

my $server = fork // die $!;
if ($server == 0)
{
	$SIG{PIPE} = 'IGNORE';
	while (1)
	{
		my $connection = $listener->accept or next;
		my ($target) = (<$connection> // '') =~ m{^GET (\S+) } or next;
		while (defined(my $line = <$connection>)) { last if $line =~ /^\r?\n/ }
		if ($target eq '/slow') { select undef, undef, undef, 0.1 until -e $go_on }
		my $body = $pages{$target};
		my $status = defined $body ? '200 OK' : '404 Not Found';
		$body //= '';
		print $connection "HTTP/1.1 $status\r\nContent-Type: text/html\r\nContent-Length: ",
		  length $body, "\r\nConnection: close\r\n\r\n$body";
		close $connection;
	}
}
END { local $?; kill 'TERM', $server and waitpid $server, 0 if $server }

my $node = rag_node('places');
configure($node, 'rag.allowed_private_hosts', '127.0.0.1');
$node->safe_psql('postgres',
	"SELECT rag_create_collection('site', chunk_size => 300, chunk_overlap => 0)");
$node->safe_psql('postgres',
	qq{SELECT rag_create_source('site', 'website',
		'{"url": "$origin/", "delay": 0, "sitemap": false}', collection => 'site')});

# -- a crawl tells how far it is
my $sync = start_sql($node, "SELECT rag_sync('site')");
ok( $node->poll_query_until(
		'postgres',
		"SELECT documents_listed = 2 AND addresses_waiting = 1 AND current_uri IS NOT NULL
		 FROM rag.progress WHERE source = 'site'"),
	'a crawl shows the documents that it has found and the addresses that wait');
write_file($go_on, '');
is($sync->finish->{rc}, 0, 'the crawl goes on');
is(run_row($node, 'site', 'documents_added, files_skipped, note'),
	'3|1|skipped 1 missing page', 'the note of the run tells what was skipped and why');

# -- chunks know the place of their section
sub places
{
	return ask($node,
		"SELECT anchor, count(*) > 0, array_agg(DISTINCT heading_path[cardinality(heading_path)])
		 FROM rag.chunks WHERE collection = 'site' AND uri = '$origin/' GROUP BY 1 ORDER BY 1");
}
my $expected = "a b|t|{Odd}\nrotate|t|{Rotation}\ntop|t|{Keys,Nameless}";
is(places(), $expected, 'chunks have the ids of their sections');
is( ask($node, "SELECT anchors FROM rag.documents WHERE uri = '$origin/'"),
	'[[0, "top"], [26, "rotate"], [568, "a b"]]',
	'the document has the places of its text');
is(ask($node, "SELECT count(*) FROM rag.chunks WHERE uri <> '$origin/' AND anchor IS NOT NULL"),
	'0', 'a page without ids has no places');

# -- citations open there
my $query = "'rotate the keys in May', 'site'";
is( ask($node, "SELECT DISTINCT citation FROM rag_search($query, top_k => 20)
		WHERE anchor = 'rotate' AND rank = 1"),
	"[1] Keys ($origin/#rotate)",
	'a citation ends with the place') or diag ask($node, "SELECT citation FROM rag_search($query)");
like(ask($node, "SELECT string_agg(citation, ' ') FROM rag_search($query, top_k => 20)"),
	qr/\Q$origin\E\/#a%20b\)/, 'a name is encoded');
is( ask($node, "SELECT d ->> 'anchor', d ->> 'citation'
		FROM rag_context('rotate the keys in May', 'site', top_k => 1) c,
		     jsonb_array_elements(c.documents) d LIMIT 1"),
	"rotate|[1] Keys ($origin/#rotate)",
	'a context cites the place of its first chunk');
like(ask($node, "SELECT location FROM rag_find('rotate the keys in May', 'site', 1)"),
	qr/#(rotate|a%20b)$/, 'a location ends with the place');

# -- they stay through a rebuild, a check for drift, and a bundle
$node->safe_psql('postgres', "SELECT rag_alter_collection('site', chunk_size => 200)");
$node->safe_psql('postgres', "CALL rag_rebuild_collection('site')");
is(places(), $expected, 'a rebuild that splits the texts again keeps the places');
is(ask($node, "SELECT drifted FROM rag_check_drift('site')"), 'f', 'a rebuild is no drift');
$node->safe_psql('postgres', "UPDATE rag.chunks SET anchor = 'other' WHERE anchor = 'top'");
is(ask($node, "SELECT drifted FROM rag_check_drift('site')"), 't', 'another place is drift');
sync_ok($node, 'site');
is(places(), $expected, 'and a sync repairs it');
my $folder = temp_folder();
configure($node, 'rag.bundle_folders', $folder);
is(run_sql($node, "SELECT rag_export_collection('site', '$folder/bundle')")->{err},
	'', 'a bundle is written');
is(run_sql($node, "SELECT rag_import_collection('$folder/bundle', 'copy')")->{err},
	'', 'and read');
is( ask($node, "SELECT count(*) FROM rag.chunks a FULL JOIN rag.chunks b
		ON b.collection = 'copy' AND b.chunk_index = a.chunk_index AND b.uri = a.uri
			AND b.anchor IS NOT DISTINCT FROM a.anchor
		WHERE a.collection = 'site' AND b.uri IS NULL"),
	'0', 'a bundle has the places of chunks');
is( ask($node, "SELECT count(DISTINCT anchors) FROM rag.documents WHERE uri = '$origin/'"),
	'1', 'and those of documents');

# -- Markdown and files
is( ask($node, q{SELECT string_agg(anchor, ' ' ORDER BY chunk_index)
		FROM rag_split(E'# A b\n\ntext\n\n## C {#own}\n\ntext\n\n## A b\n\ntext\n',
			chunk_size => 18, chunk_overlap => 0)}),
	'a-b own a-b-1', 'Markdown has the names of its headings');
$node->safe_psql('postgres', q{
	SELECT rag_add_document('# Kiwi fruit' || E'\n\nGreen.', 'https://example.org/kiwi.md');
	SELECT rag_add_document('# Papaya fruit' || E'\n\nOrange.', 'notes/papaya');
	SELECT rag_add_document('<h1 id="m">Mango fruit</h1><p>Yellow.', 'file:///srv/mango.html',
		document_type => 'html')});
for (
	[ 'kiwi', '[1] Kiwi fruit (https://example.org/kiwi.md#kiwi-fruit)' ],
	[ 'papaya', '[1] Papaya fruit (notes/papaya)' ],
	[ 'mango', '[1] Mango fruit (file:///srv/mango.html#m)' ])
{
	my ($word, $citation) = @$_;
	is(ask($node, "SELECT citation FROM rag_search('$word', mode => 'keyword', top_k => 1)"),
		$citation, "what opens at a place is cited with it: $word");
}

done_testing();
