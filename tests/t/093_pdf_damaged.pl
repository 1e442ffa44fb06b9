# Corrupted and hostile PDFs: if the process that reads one fails, it is an error of that document
# only.
use strict;
use warnings;
use Compress::Zlib;
use Test::More;
use RagCluster;
use RagPdf;

my $node = rag_node('pdf_damaged');
my $witness = witness($node);
my $folder = temp_folder();
srand 20261123;

my @seeds = (
	pdf_file(
		[
			map {
					"BT /F1 12 Tf 100 700 Td (Page $_ of a small file) Tj 0 -14 Td (with a second "
				  . "line) Tj ET"
			} 1 .. 3
		]),
	pdf_file(
		['BT /F1 12 Tf 100 700 Td (Before.) Tj /F2 12 Tf <FFF0FFF1> Tj ET'],
		more => [ font_without_table() ]),
	pdf_file(
		[ stream(compress('BT /F1 12 Tf 100 700 Td (Packed) Tj ET ' x 20), '/Filter/FlateDecode') ])
);
if (my ($shared) = grep { -d } map { "$_/pdf" } $ENV{RAG_TEST_DATA} // '')
{
	push @seeds,
	  map { PostgreSQL::Test::Utils::slurp_file($_) } sort grep { -s } glob "$shared/*.pdf";
}
foreach my $i (0 .. 199)
{
	my $bytes = $seeds[ $i % @seeds ];
	# single bytes, random bytes, or a piece that is moved
	my $kind = int($i / @seeds) % 3;
	substr($bytes, int rand length $bytes, 1) = chr int rand 256
	  for 1 .. ($kind == 0 ? 1 + length($bytes) / 500 : 3);
	substr($bytes, int rand length $bytes, 64) = pack 'C*', map { int rand 256 } 1 .. 64
	  if $kind == 1;
	substr($bytes, int rand length $bytes, 200) = substr $bytes, int rand length $bytes, 400
	  if $kind == 2;
	write_file("$folder/" . sprintf('%03d.pdf', $i), $bytes);
}
# a page that unpacks to two gigabytes: a flushed piece of a deflate stream can be repeated
my ($packer) = deflateInit(-WindowBits => -MAX_WBITS);
my $piece = ($packer->deflate("\0" x 1048576))[0] . ($packer->flush(Z_FULL_FLUSH))[0];
write_file("$folder/bomb.pdf",
	pdf_file([ stream("\x78\x01" . $piece x 2048 . "\x03\0", '/Filter/FlateDecode') ]));
# forms that draw each other
my $form = sub {
	stream('/Fm Do',
		"/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</Fm $_[0] 0 R>>>>");
};
write_file("$folder/circle.pdf",
	pdf_file(['/Fm Do'], page => '', more => [ $form->(7), $form->(6) ]));
write_file("$folder/good.pdf", pdf_file(['BT /F1 12 Tf 100 700 Td (All is well) Tj ET']));
write_file("$folder/good.md", "# Good\n\nText.\n");

create_folder_source($node, 'docs', $folder);
my $result = run_sql($node, "SELECT rag_sync('docs')");
is($result->{rc}, 0, 'a folder of corrupted PDFs can be synced') or diag($result->{err});
is(run_row($node, 'docs', 'phase, documents_added + documents_failed'),
	'Completed|204', 'each document is indexed or has an error');
is( ask($node,
		"SELECT count(*) FROM rag.documents WHERE source = 'docs'
			AND status NOT IN ('active', 'error')"
	),
	'0',
	'there are no documents with another status');
is( ask($node,
		"SELECT string_agg(content, ' ' ORDER BY uri) FROM rag.documents WHERE uri ~ '/good'"),
	"# Good\n\nText.\n All is well",
	'intact PDFs among corrupted ones are read');
is(ask($node, "SELECT status FROM rag.documents WHERE uri LIKE '%/bomb.pdf'"),
	'error', 'a PDF that needs too much memory is an error');
diag(
	ask($node,
		"SELECT string_agg(n || ' ' || message, E'\\n')
			FROM (SELECT count(*) n, message FROM rag.run_errors
			GROUP BY 2 ORDER BY 1 DESC LIMIT 12) m"
	)) if $ENV{RAG_TEST_VERBOSE};
is( ask($node, "SELECT count(*) FROM rag.chunks c JOIN rag.documents d USING (document_id)
	WHERE substr(d.content, c.start_index + 1, length(c.content)) <> c.content"),
	'0',
	'chunks have the right position');
same_cluster($witness, 'corrupted PDFs');

$node->stop;
done_testing();
