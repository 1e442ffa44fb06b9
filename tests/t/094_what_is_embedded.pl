# Text, chunks and citations of documents: code has functions and a path, citations of a repository
# have lines, the text of a page has no link targets. Documents are indexed again if the embedded
# text has changed.
use strict;
use warnings;
use utf8;
use IO::Socket::INET;
use Test::More;
use RagCluster;
use RagGit;

my $node = rag_node('embedded');
my $counts =
  'documents_added, documents_updated, documents_unchanged, documents_failed, chunks_embedded > 0';

# -- source code and Markdown of a repository
my $statements = join '', map { "    place_vector_number_$_(index, vector, $_);\n" } 1 .. 60;
my $repository = git_repository();
$repository->write('src/hnsw.c',
		"#include \"hnsw.h\"\n\nint unrelated;\n\n/* Adds a vector. */\nstatic void\n"
	  . "insert_vector(Index index)\n{\n$statements}\n");
$repository->write('docs/keys.md',
	"---\nowner: security\n---\n\n# Keys\n\nKeys are rotated at night.\n");
$repository->write('docs/late.md', "\n\nLate bread is baked at noon.\n");
$repository->commit;
my $path = $repository->path;
my $commit = substr $repository->head, 0, 7;
$node->safe_psql('postgres',
	qq{SELECT rag_create_source('code', 'git', '{"repositoryURL": "$path"}')});
sync_ok($node, 'code');

is( ask($node, "SELECT title, metadata ->> 'language' FROM rag.documents WHERE uri LIKE '%hnsw.c'"),
	'hnsw.c|c',
	'the title of a code file is its name');
is( ask($node,
		"SELECT count(*) > 2,
			count(*) FILTER (WHERE heading_path = '{insert_vector}') = count(*) - 1,
			bool_and(heading_path IS NULL OR start_line > 3)
	FROM rag.chunks WHERE uri LIKE '%hnsw.c'"),
	't|t|t',
	'each chunk of a function has the name of the function');
is( ask($node,
		"SELECT count(*) FROM rag.chunks WHERE uri LIKE '%hnsw.c' AND content ~ 'insert_vector'
			AND content !~ 'place_vector_number_2'"
	),
	'0',
	'a signature is in the same chunk as the first lines of its body');
# the model receives path and function before the chunk: this is the embedding of that text
is( ask($node,
		"SELECT bool_and((c.embedding
			<=> rag_embed(E'src/hnsw.c: insert_vector\\n\\n' || c.content)) < 0.001)
		FROM rag.chunks c
	WHERE uri LIKE '%hnsw.c' AND heading_path IS NOT NULL"),
	't',
	'path and function name are embedded');
is( $node->safe_psql(
		'postgres',
		q{SELECT count(*) > 0
			FROM rag_search('how is a vector added', filter => '{"heading": "insert_vector"}')}
	),
	't',
	'a filter finds a function');

# -- lines and citations
is(ask($node, "SELECT start_line, end_line FROM rag.chunks WHERE uri LIKE '%keys.md'"),
	'5|7', 'lines of front matter are counted');
is(ask($node, "SELECT start_line, end_line FROM rag.chunks WHERE uri LIKE '%late.md'"),
	'3|3', 'empty lines before the text are counted');
my $keys = q{rag_search('when are keys rotated', top_k => 1)};
is( $node->safe_psql(
		'postgres', "SELECT citation, start_line, end_line, page IS NULL, heading_path FROM $keys"),
	"[1] Keys, docs/keys.md:5-7 @ $commit (file://$path#docs/keys.md)|5|7|t|{Keys}",
	'a citation has path, lines and commit');
like(
	$node->safe_psql(
		'postgres',
		q{SELECT citation FROM rag_search('insert_vector', filter => '{"language": "c"}',
			top_k => 1)}
	),
	qr/^\[1\] src\/hnsw\.c:\d+-\d+ \@ \Q$commit\E \(file:/,
	'a citation of a code file has its lines once');

# -- pages of a site
my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 20, ReuseAddr => 1)
  or die "cannot listen: $!";
my $origin = 'http://127.0.0.1:' . $listener->sockport;
my %pages = (
	'/' => '<title>Start</title><div '
	  . 'class=navheader><table><tr><td>Prev<td>Next</table></div><h1>Start<a class=headerlink '
	  . 'href=#start>¶</a></h1>'
	  . '<p>See <a href="two.html#x" title="TOOLTIP">the second page</a>.<pre># comment' . "\n"
	  . 'ls <b>-l</b></pre>',
	'/two.html' => '<title>Two</title><h1>Two</h1><p>The second page.',);
my $server = fork // die $!;
if ($server == 0)
{
	while (1)
	{
		my $connection = $listener->accept or next;
		my ($target) = (<$connection> // '') =~ m{^GET (\S+) } or next;
		while (defined(my $line = <$connection>)) { last if $line =~ /^\r?\n/ }
		my $body = $pages{$target};
		utf8::encode($body) if defined $body;
		my $status = defined $body ? '200 OK' : '404 Not Found';
		$body //= '';
		print $connection
		  "HTTP/1.1 $status\r\nContent-Type: text/html; charset=utf-8\r\nETag: \"1\"\r\n"
		  . "Content-Length: ",
		  length $body, "\r\nConnection: close\r\n\r\n$body";
		close $connection;
	}
}
END { local $?; kill 'TERM', $server and waitpid $server, 0 if $server }

configure($node, 'rag.allowed_private_hosts', '127.0.0.1');
$node->safe_psql(
	'postgres',
	qq{SELECT rag_create_source('site', 'website',
		'{"url": "$origin/", "delay": 0, "sitemap": false}')}
);
sync_ok($node, 'site');
is( $node->safe_psql('postgres', "SELECT content FROM rag.documents WHERE uri = '$origin/'"),
	"# Start\n\nSee the second page.\n\n```\n# comment\nls -l\n```",
	'the text of a page has no link targets and no navigation, and its code is unchanged');
is(ask($node, "SELECT metadata ->> 'link_targets' FROM rag.documents WHERE uri = '$origin/'"),
	"[\"$origin/two.html\"]", 'link targets are metadata of the document');
is(ask($node, "SELECT count(*) FROM rag.chunks WHERE metadata ? 'link_targets'"),
	'0', 'link targets are not metadata of chunks');
my $fetched = run_row($node, 'site', 'bytes_fetched');
sync_ok($node, 'site');
is(run_row($node, 'site', 'documents_unchanged, bytes_fetched'),
	"2|$fetched", 'pages that are unchanged after a fetch are counted');

# -- Japanese in seven bits
my $folder = temp_folder();
write_file("$folder/a.txt", "\e\$B%F%9%H\e(B\n");
create_folder_source($node, 'japanese', $folder);
sync_ok($node, 'japanese');
is( $node->safe_psql(
		'postgres',
		q{SELECT content = E'テスト\n', metadata ->> 'encoding' FROM rag.documents
			WHERE source = 'japanese'}
	),
	't|ISO-2022-JP',
	'ISO-2022-JP is decoded');

# -- documents of a previous version are indexed again once
$node->safe_psql(
	'postgres',
	q{UPDATE rag.documents SET chunking = regexp_replace(chunking, 'v\d+', 'v3')
		WHERE source = 'code'}
);
sync_ok($node, 'code');
is(run_row($node, 'code', $counts),
	'0|3|0|0|f', 'a new version of the splitter indexes documents again and embeds only new texts');
sync_ok($node, 'code');
is(run_row($node, 'code', $counts),
	'0|0|3|0|f', 'a new version of the splitter indexes documents only once');

$node->stop;
done_testing();
