# The files in archives, mailboxes and messages are documents of their own.
use strict;
use warnings;
use Archive::Tar;
use IO::Compress::Zip qw($ZipError);
use Test::More;
use RagCluster;

my $node = rag_node('containers');
my $folder = temp_folder();

# Writes a zip file with files, given as pairs of name and text.
sub write_zip
{
	my ($path, @files) = @_;
	my $bytes = '';
	my $zip;
	while (my ($name, $text) = splice @files, 0, 2)
	{
		if ($zip) { $zip->newStream(Name => $name) }
		else { $zip = IO::Compress::Zip->new(\$bytes, Name => $name) or die $ZipError }
		$zip->print($text);
	}
	$zip->close;
	write_file($path, $bytes);
	return $bytes;
}

sub uris
{
	return ask($node,
		"SELECT string_agg(substr(uri, length('file://$folder/') + 1), ' '
			ORDER BY uri COLLATE \"C\")
		FROM rag.documents WHERE status = 'active'");
}

sub counts
{
	my ($run) = @_;
	return ask($node,
		"SELECT format('%s new, %s changed, %s same, %s gone, %s failed', documents_added,
			documents_updated, documents_unchanged, documents_deleted, documents_failed)
		FROM rag.runs WHERE run_id = $run");
}

my $inner = write_zip("$folder/inner.zip", 'deep.md' => '# Deep sea');
unlink "$folder/inner.zip";
my @files = (
	'guide/keys.md' => "# Keys\n\nKeys rotate every ninety days.",
	'guide/logo.png' => 'x',
	'.env' => 'SECRET=1',
	'drafts/idea.md' => '# Idea',
	'inner.zip' => $inner);
write_zip("$folder/docs.zip", @files);
my $tar = Archive::Tar->new;
$tar->add_data('manual/pump.txt', 'The pump needs oil.');
$tar->write("$folder/manual.tar.gz", COMPRESS_GZIP);
write_file("$folder/mail.eml", <<'END');
From: Ann <ann@example.org>
Subject: Prices
Content-Type: multipart/mixed; boundary=m

--m
Content-Type: text/plain

The prices of spring are attached.
--m
Content-Type: text/csv; name="prices.csv"
Content-Disposition: attachment

name,price
Tea,2.50
--m--
END
my $first = "From a\@x Wed May  1 08:00:00 2024\nSubject: Boats\nMessage-ID: <1\@x.org>\n\n"
	. "Boats leave at noon.\n\n";
my $second = "From b\@x Wed May  1 09:00:00 2024\nSubject: Trains\nMessage-ID: <2\@x.org>\n\n"
	. "Trains leave at night.\n\n";
write_file("$folder/inbox.mbox", $first);

$node->safe_psql('postgres', "SELECT rag_create_source('files', 'folder',
	'{\"path\": \"$folder\", \"excludePaths\": [\"drafts/\"]}')");
# The version of a file that has just changed is not trusted.
sleep 4;
my $run = sync_ok($node, 'files');
is( uris(),
	'docs.zip!/guide/keys.md docs.zip!/inner.zip!/deep.md inbox.mbox!/1@x.org.eml mail.eml'
	  . ' mail.eml!/prices.csv manual.tar.gz!/manual/pump.txt',
	'each file is a document, but keys, drafts and pictures');
is(counts($run), '6 new, 0 changed, 0 same, 0 gone, 0 failed', 'each is counted');
is(ask($node, "SELECT files_skipped FROM rag.runs WHERE run_id = $run"),
	1, 'a picture is skipped; hidden files are not selected');
is( ask($node, "SELECT title || ' ' || (metadata ->> 'parent_uri' = 'file://$folder/docs.zip')
	FROM rag_search('how often do keys rotate?', top_k => 1)"),
	'Keys true', 'a search finds a file in an archive, and names the archive');
is( ask($node, "SELECT content FROM rag.documents WHERE uri LIKE '%mail.eml'"),
	"The prices of spring are attached.\n\nAttachments: prices.csv",
	'a message names its attachments');

$run = sync_ok($node, 'files');
is(counts($run), '0 new, 0 changed, 6 same, 0 gone, 0 failed', 'nothing has changed');
is(ask($node, "SELECT bytes_fetched FROM rag.runs WHERE run_id = $run"),
	0, 'so nothing is fetched');

write_file("$folder/inbox.mbox", $first . $second);
write_zip("$folder/docs.zip", @files[2, 3, 6, 7, 8, 9], 'guide/locks.md' => '# Locks');
$run = sync_ok($node, 'files');
is(counts($run), '2 new, 0 changed, 5 same, 1 gone, 0 failed',
	'only what has changed in a container is indexed');

my $good = RagProcesses::slurp("$folder/docs.zip");
write_file("$folder/docs.zip", substr $good, 0, 60);
$run = sync_ok($node, 'files');
is(counts($run), '0 new, 0 changed, 5 same, 0 gone, 1 failed',
	'a damaged archive is an error, and its documents stay');
like(ask($node, "SELECT uri || ': ' || message FROM rag.run_errors WHERE run_id = $run"),
	qr{docs\.zip: the archive is malformed}, 'the error names it');
like(uris(), qr{docs\.zip!/guide/locks\.md docs\.zip!/inner\.zip!/deep\.md},
	'they are still found');

write_file("$folder/docs.zip", $good);
ask($node, "SELECT rag_delete_document(document_id) FROM rag.documents WHERE uri ~ 'locks'");
$run = sync_ok($node, 'files');
like(uris(), qr/locks\.md/, 'a document that somebody deleted comes back');
unlink "$folder/docs.zip";
$run = sync_ok($node, 'files');
is( uris(),
	'inbox.mbox!/1@x.org.eml inbox.mbox!/2@x.org.eml mail.eml mail.eml!/prices.csv'
	  . ' manual.tar.gz!/manual/pump.txt',
	'documents go with their archive');

# 12 files of 60 MB, of which the archive has less than one.
my $zeros = "\0" x (60 << 20);
write_zip("$folder/bomb.zip", map { ("$_.txt" => $zeros) } 1 .. 12);
$run = sync_ok($node, 'files');
like(
	ask($node, "SELECT string_agg(message, '; ') FROM rag.run_errors WHERE run_id = $run
		AND uri LIKE '%bomb.zip'"),
	qr/the file holds more than \d+ bytes/,
	'an archive that unpacks to too much is an error');
is(ask($node, 'SELECT count(*) FROM rag.documents'), '6', 'the others are there');

done_testing();
