# Scans are read by Tesseract in the sandboxed process that reads PDFs. Skipped without Tesseract.
use strict;
use warnings;
use Test::More;
use RagCluster;

plan skip_all => 'Tesseract is not installed'
  if !glob '/usr/share/{tesseract-ocr/*/,}tessdata/eng.traineddata';

my $node = rag_node('scans', conf => "rag.sandbox = required\nrag.ocr_languages = 'eng'");
my $folder = temp_folder();
write_file("$folder/lease.pdf", RagProcesses::slurp("$ENV{RAG_TEST_FILES}/scan.pdf"));
my $read = "SELECT metadata ->> 'recognized_pages', content ~ 'let to Anna Berg',
	content ~ 'Twelve lemon trees', content ~ 'a text layer'
	FROM rag.documents WHERE uri ~ 'lease'";
my $warnings = "SELECT string_agg(message, '; ') FROM rag.run_errors WHERE run_id = ";

create_folder_source($node, 'leases', $folder);
my $run = sync_ok($node, 'leases');
is(ask($node, $read), '[1, 2, 5, 6, 7]|t|t|t',
	'a run reads what pages show, one of them on its side');
is( ask($node, $warnings . $run),
	'page 4 of 7 looks like a scan: there is a picture and no text',
	'an empty picture is told');
is( ask($node, "SELECT title FROM rag_search('who rents the glass house?', top_k => 1)"),
	'lease', 'a search finds the scan');
my $bytes = "pg_read_binary_file('$folder/lease.pdf')";
ask($node, "SELECT action FROM rag_add_document($bytes, 'given.pdf')");
is(ask($node, "SELECT content ~ 'lemon trees' FROM rag.documents WHERE uri = 'given.pdf'"),
	't', 'rag_add_document reads scans');
like(ask($node, "SELECT content FROM rag_extract($bytes, 'pdf')"),
	qr/lemon trees/, 'so does rag_extract');

configure($node, 'rag.ocr', 'off');
$node->safe_psql('postgres', "SELECT rag_drop_source('leases', keep_documents => false)");
create_folder_source($node, 'leases', $folder);
$run = sync_ok($node, 'leases');
is(ask($node, $read), '|f|f|t', 'rag.ocr = off reads the pages with text alone');
like(ask($node, $warnings . $run),
	qr/pages 1, 2, 4 of 7 look like a scan/, 'and tells the others');

configure($node, 'rag.ocr', 'auto');
configure($node, 'rag.ocr_languages', 'xyz');
$node->safe_psql('postgres', "SELECT rag_drop_source('leases', keep_documents => false)");
create_folder_source($node, 'leases', $folder);
my $log = -s $node->logfile;
$run = sync_ok($node, 'leases');
is(ask($node, $read), '|f|f|t', 'without the data of a language nothing is recognized');
ok($node->log_contains('text could not be recognized: Tesseract lacks the data of xyz', $log),
	'the log says why');

# Pictures are documents with rag.ocr = all.
configure($node, 'rag.ocr_languages', 'eng');
my $pictures = temp_folder();
write_file("$pictures/$_", RagProcesses::slurp("$ENV{RAG_TEST_FILES}/$_"))
  for 'letter.tiff', 'blank.png';
create_folder_source($node, 'pictures', $pictures);
$run = sync_ok($node, 'pictures');
is(ask($node, "SELECT files_skipped FROM rag.runs WHERE run_id = $run"),
	2, 'with rag.ocr = auto pictures are skipped');
configure($node, 'rag.ocr', 'all');
$run = sync_ok($node, 'pictures');
is( ask($node, "SELECT document_type, metadata ->> 'recognized_pages', content ~ 'glass house',
		content ~ 'lemon trees' FROM rag.documents WHERE uri ~ 'letter'"),
	'image|[1, 2]|t|t', 'with all, both pages of a TIFF file are read');
is(ask($node, "SELECT files_skipped, documents_failed FROM rag.runs WHERE run_id = $run"),
	'1|0', 'a picture without text is skipped');

done_testing();
