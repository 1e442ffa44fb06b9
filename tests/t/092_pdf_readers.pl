# PDFs are read with PDFium, or with pdf-extract if its library is missing.
# Metadata and log name the reader. Lost content of a page is a warning.
use strict;
use warnings;
use Compress::Zlib;
use Test::More;
use RagCluster;
use RagPdf;

my $node = rag_node('pdf_readers');
my $folder = temp_folder();

# Vertical text on a rotated page; pdf-extract joins its lines.
my $turned = pdf_file(
	[
			'BT /F1 12 Tf 0 1 -1 0 100 100 Tm (Total for) Tj ET BT /F1 12 Tf 0 1 -1 0 100 300 Tm '
		  . '(2019) Tj ET '
		  . 'BT /F1 12 Tf 0 1 -1 0 130 100 Tm (second line) Tj ET'
	],
	page => '/Rotate 90');

sub document
{
	my ($file, $columns) = @_;
	return ask($node, "SELECT $columns FROM rag.documents WHERE uri LIKE '%/$file'");
}

write_file("$folder/turned.pdf", $turned);
write_file(
	"$folder/cut.pdf",
	pdf_file(
		['BT /F1 12 Tf 100 700 Td (difficult to com-) Tj 0 -12 Td (pile than) Tj ET'],
		without_table => 1));
write_file(
	"$folder/lost.pdf",
	pdf_file(
		[
			'BT /F1 12 Tf 100 700 Td (A whole page) Tj ET',
			'BT /F1 12 Tf 100 700 Td (Before.) Tj /F2 12 Tf <FFF0FFF1FFF2> Tj /F1 12 Tf 0 -20 Td '
			  . '(After.) Tj ET'
		],
		more => [ font_without_table() ]));
write_file(
	"$folder/long.pdf",
	pdf_file(
		[
			map {
				my $page = $_;
				'BT /F1 12 Tf 14 TL 100 700 Td '
				  . join(
					' ',
					map { '(Line ' . ($_ * $page) . ' of a page with some more words on it) Tj T*' }
					  1 .. 40)
				  . ' ET'
			} 1 .. 3
		]));
my $packed = compress('BT /F1 12 Tf 14 TL 100 700 Td '
	  . join(' ', map { "(Line $_ of a page) Tj T*" } 1 .. 40) . ' ET');
substr($packed, length($packed) / 2, 8) = "\xFF" x 8;
write_file(
	"$folder/damaged.pdf",
	pdf_file(
		[ 'BT /F1 12 Tf 100 700 Td (A whole page) Tj ET', stream($packed, '/Filter/FlateDecode') ]
	));
write_file("$folder/good.md", "# Good\n\nText.\n");
create_folder_source($node, 'docs', $folder);
my $start = -s $node->logfile;
my $result = run_sql($node, "SELECT rag_sync('docs')");
like(
	$result->{err},
	qr/NOTICE:.*docs: 2 documents were indexed with warnings; see rag.run_errors/,
	'the sync reports documents with losses');
is( document('turned.pdf', "content, metadata ->> 'pdf_reader'"),
	"Total for\t2019\nsecond line|pdfium",
	'PDFium reads a rotated page');
is( document('cut.pdf', 'content'),
	'difficult to compile than',
	'PDFium reads a file without its table and keeps words together');
is(document('lost.pdf', "status, metadata -> 'unreadable_pages'"),
	'active|[2]', 'a page that was read partly has a warning');
is( ask($node, "SELECT severity, stage, message FROM rag.run_errors WHERE uri LIKE '%/lost.pdf'"),
	'warning|extract|page 2 of 2 could not be read completely',
	'rag.run_errors lists the page that was read partly');
is( ask($node,
		"SELECT severity, stage, message FROM rag.run_errors
		WHERE uri LIKE '%/damaged.pdf'"),
	'warning|extract|page 2 of 2 could not be read completely',
	'rag.run_errors lists the page with a damaged stream');
is( ask($node,
		"SELECT min(c.page), max(c.page), bool_and(c.page = pages.n
			AND substr(d.content, c.start_index + 1, length(c.content)) = c.content)
	FROM rag.chunks c JOIN rag.documents d USING (document_id),
	LATERAL (SELECT 1 + length(regexp_replace(left(d.content, c.start_index), '[^\f]', '',
	'g')) n) pages
	WHERE d.uri LIKE '%/long.pdf'"),
	'1|3|t',
	'chunks have the right page and position');
like(
	PostgreSQL::Test::Utils::slurp_file($node->logfile, $start),
	qr/PDFs are read with pdfium/,
	'the log reports the reader of PDFs');
is( ask($node,
		"SELECT action, error FROM rag_add_document(decode('"
		  . unpack('H*', $turned)
		  . "', 'hex'), 'turned')"),
	'added|',
	'rag_add_document reads a PDF');
is( ask($node, "SELECT content, metadata ->> 'pdf_reader' FROM rag.documents WHERE uri = 'turned'"),
	"Total for\t2019\nsecond line|pdfium",
	'rag_add_document reads a PDF with the same result');

configure($node, 'rag.pdfium_path', "$folder/nowhere.so");
write_file("$folder/second.pdf", $turned);
write_file("$folder/new.md", "# New\n\nText.\n");
$start = -s $node->logfile;
sync_ok($node, 'docs', 'a run succeeds without the library');
is(document('second.pdf', "status, metadata ->> 'pdf_reader'"),
	'active|pdf-extract', 'pdf-extract reads PDFs if the library is missing');
is(document('new.md', 'status'), 'active', 'other documents are read without the library');
like(
	PostgreSQL::Test::Utils::slurp_file($node->logfile, $start),
	qr/PDFs are read with pdf-extract: PDFium's library is missing/,
	'the log reports that pdf-extract is used');

$node->stop;
done_testing();
