# PDFs are read with PDFium, and with pdf-extract where it is missing or where the server is told
# so; the metadata and the log say which it was. What is lost of a page is told.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagPdf;

my $node = rag_node('pdf_readers');
my $folder = temp_folder();

# Text along the height of a page that is turned; pdf-extract fuses its lines.
my $turned = pdf_file([ 'BT /F1 12 Tf 0 1 -1 0 100 100 Tm (Total for) Tj ET BT /F1 12 Tf 0 1 -1 0 100 300 Tm (2019) Tj ET '
	. 'BT /F1 12 Tf 0 1 -1 0 130 100 Tm (second line) Tj ET' ], page => '/Rotate 90');

sub document
{
	my ($file, $columns) = @_;
	return ask($node, "SELECT $columns FROM rag.documents WHERE uri LIKE '%/$file'");
}

write_file("$folder/turned.pdf", $turned);
write_file("$folder/cut.pdf", pdf_file(['BT /F1 12 Tf 100 700 Td (difficult to com-) Tj 0 -12 Td (pile than) Tj ET'], without_table => 1));
write_file("$folder/lost.pdf", pdf_file([ 'BT /F1 12 Tf 100 700 Td (A whole page) Tj ET',
	'BT /F1 12 Tf 100 700 Td (Before.) Tj /F2 12 Tf <FFF0FFF1FFF2> Tj /F1 12 Tf 0 -20 Td (After.) Tj ET' ], more => [font_without_table()]));
write_file("$folder/long.pdf", pdf_file([ map { my $page = $_; 'BT /F1 12 Tf 14 TL 100 700 Td '
	. join(' ', map { '(Line ' . ($_ * $page) . ' of a page with some more words on it) Tj T*' } 1 .. 40) . ' ET' } 1 .. 3 ]));
write_file("$folder/good.md", "# Good\n\nText.\n");
create_folder_source($node, 'docs', $folder);
my $start = -s $node->logfile;
my $result = run_sql($node, "SELECT rag_sync('docs')");
like($result->{err}, qr/NOTICE:.*docs: 1 documents were indexed with warnings; see rag.run_errors/, 'the user is told of what was lost');
is(document('turned.pdf', "content, metadata ->> 'pdf_reader'"), "Total for\t2019\nsecond line|pdfium", 'PDFium reads a page that is turned');
is(document('cut.pdf', 'content'), 'difficult to compile than', 'and a file without its table, whose words are whole');
is(document('lost.pdf', "status, metadata -> 'unreadable_pages'"), 'active|[2]', 'a page that is lost in part is named');
is(ask($node, "SELECT severity, stage, message FROM rag.run_errors WHERE uri LIKE '%/lost.pdf'"),
	'warning|extract|page 2 of 2 could not be read, or not completely', 'in rag.run_errors, too');
is(ask($node, "SELECT min(c.page), max(c.page), bool_and(c.page = pages.n AND substr(d.content, c.start_index + 1, length(c.content)) = c.content)
	FROM rag.chunks c JOIN rag.documents d USING (document_id),
	LATERAL (SELECT 1 + length(regexp_replace(left(d.content, c.start_index), '[^\f]', '', 'g')) n) pages
	WHERE d.uri LIKE '%/long.pdf'"), '1|3|t', 'chunks know their page and their place');
like(PostgreSQL::Test::Utils::slurp_file($node->logfile, $start), qr/PDFs are read with pdfium/, 'the log says what PDFs are read with');
is(ask($node, "SELECT action, error FROM rag_add_document(decode('" . unpack('H*', $turned) . "', 'hex'), 'turned')"), 'added|', 'a PDF is put in directly');
is(ask($node, "SELECT content, metadata ->> 'pdf_reader' FROM rag.documents WHERE uri = 'turned'"), "Total for\t2019\nsecond line|pdfium", 'and read likewise');

configure($node, 'rag.pdf_reader', 'pdf-extract');
write_file("$folder/second.pdf", $turned);
sync_ok($node, 'docs');
is(document('second.pdf', "metadata ->> 'pdf_reader'"), 'pdf-extract', 'pdf-extract reads where it is asked for');

configure($node, 'rag.pdf_reader', 'pdfium');
configure($node, 'rag.pdfium_path', "$folder/nowhere.so");
write_file("$folder/third.pdf", $turned);
write_file("$folder/new.md", "# New\n\nText.\n");
$result = run_sql($node, "SELECT rag_sync('docs')");
is($result->{rc}, 0, 'a library that is missing and asked for ends no run');
like(ask($node, "SELECT severity, message, hint FROM rag.run_errors WHERE uri LIKE '%/third.pdf'"),
	qr/^error\|the PDF cannot be read: PDFium's library cannot be loaded: .*\|.*rag\.pdf_reader/, 'it is an error of the PDF, with a hint');
is(document('new.md', 'status'), 'active', 'what is no PDF is indexed');

configure($node, 'rag.pdf_reader');
$start = -s $node->logfile;
sync_ok($node, 'docs');
is(document('third.pdf', "status, metadata ->> 'pdf_reader'"), 'active|pdf-extract', 'pdf-extract reads where the library is missing');
like(PostgreSQL::Test::Utils::slurp_file($node->logfile, $start), qr/PDFs are read with pdf-extract: PDFium's library is missing/, 'the log says so');
error_like(run_sql($node, "ALTER SYSTEM SET rag.pdf_reader = 'poppler'"), '22023', 'invalid value for parameter "rag.pdf_reader"',
	'auto, pdfium, pdf-extract', 'a reader that nobody knows');

$node->stop;
done_testing();
