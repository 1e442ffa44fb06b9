# Files, folders, models and programs that are missing, corrupted or hostile. Each is an error with
# a hint, which concerns one document or call only. Other documents are indexed, and the server
# keeps running.
use strict;
use warnings;
use POSIX ();
use Test::More;
use RagCluster;

my $node = rag_node('bad_input');
my $witness = witness($node);
is($>, POSIX::geteuid(), 'the test runs as an ordinary user') && $> != 0
  or plan(skip_all => 'root may read everything');

# -- files
my $outside = temp_folder();
write_file("$outside/secret.md", "# Secret\n\nThe password is swordfish.\n");
my $folder = temp_folder();
write_file("$folder/good.md", "# Bread\n\nBread is baked in the morning.\n");
write_file("$folder/nul.md", "# Nul\n\nbefore\0after\n");
write_file("$folder/latin1.txt", "caf\xe9\n");
write_file("$folder/cut.txt", "na\xc3\xafve caf\xc3");
write_file("$folder/utf16.txt", "\xff\xfea\0b\0");
write_file("$folder/program.txt", "\x7fELF\2\1\1\0\0\0\0\0\0\0\0\0\3\0");
write_file("$folder/empty.md", '');
write_file("$folder/blank.md", " \n\t\n \n");
write_file("$folder/line.txt", 'x' x 2_000_000);
write_file("$folder/locked.md", "# Locked\n");
chmod 0000, "$folder/locked.md";
write_file("$folder/huge.md", "A line of a file that is too large.\n" x 80_000);
write_file("$folder/header.pdf", "%PDF-1.4\nand nothing of a PDF");
write_file("$folder/truncated.pdf",
		"%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n"
	  . "2 0 obj\n<< /Type /Pages /Kids [3 0");
write_file("$folder/circle.pdf",
		"%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n2 0 obj\n"
	  . "<< /Type /Pages /Kids [2 0 R] /Count 1 /Parent 2 0 R >>\nendobj\ntrailer\n<< /Root 1 0 R "
	  . "/Size 3 >>\n%%EOF\n");
write_file("$folder/noise.pdf", '%PDF-1.7' . join('', map { chr($_ * 7919 % 256) } 1 .. 5000));
symlink "$outside/secret.md", "$folder/link.md" or die $!;
symlink $outside, "$folder/link" or die $!;
symlink "$folder/nowhere.md", "$folder/dangling.md" or die $!;
symlink "good.md", "$folder/alias.md" or die $!;
POSIX::mkfifo("$folder/pipe.md", 0644) or die $!;
create_folder_source($node, 'docs', $folder);
configure($node, 'rag.max_file_size', '2MB');

my $result = run_sql($node, "SELECT rag_sync('docs')");
is($result->{rc}, 0, 'a folder with bad files can be synced') or diag($result->{err});
like(
	$result->{err},
	qr/WARNING:  .*docs: \d+ documents could not be indexed; see rag.run_errors/,
	'the sync reports the number of failed documents');
is(run_row($node, 'docs', 'phase'), 'Completed', 'a run with bad files is Completed');

sub fails
{
	my ($file, $stage, $message) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $got = ask(
		$node,
		"SELECT stage, message, hint IS NOT NULL, (SELECT status FROM rag.documents d
			WHERE d.uri = e.uri)
		FROM rag.run_errors e WHERE uri LIKE '%/$file' ORDER BY run_id DESC LIMIT 1");
	# a file that could never be fetched has no document
	my $status = $stage eq 'fetch' ? '' : 'error';
	like(
		$got,
		qr/\A$stage\|.*(?:$message).*\|t\|$status\z/,
		"$file fails in stage $stage with a hint");
	return;
}

sub reads
{
	my ($file, $expected) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is( ask($node,
			"SELECT content, metadata ->> 'encoding', metadata ->> 'warnings' FROM rag.documents
				WHERE uri LIKE '%/$file'"
		),
		$expected,
		"$file is indexed with the expected text and warnings");
	return;
}

reads('nul.md', "# Nul\n\nbeforeafter\n|UTF-8|[\"1 NUL character was removed\"]");
reads('latin1.txt', "caf\xc3\xa9\n|windows-1252|");
reads('cut.txt',
	"na\xc3\xafve caf\xef\xbf\xbd|UTF-8|[\"1 invalid UTF-8 sequence was replaced with "
	  . "U+FFFD, the first at byte offset 10\"]");
reads('utf16.txt', 'ab|UTF-16LE|');
is( ask($node, "SELECT stage, message FROM rag.run_errors
		WHERE uri LIKE '%/program.txt' ORDER BY run_id DESC LIMIT 1"),
	'decode|the file was skipped because it is binary',
	'a binary file of a known type is skipped with a warning');
fails('locked.md', 'fetch', 'permission denied');
fails('huge.md', 'fetch', 'large|limit');
is(ask($node, "SELECT count(*) FROM rag.documents WHERE uri ~ '(empty|blank).md'"),
	'0', 'empty files are not indexed');
fails($_, 'extract', '.') for qw(header.pdf truncated.pdf circle.pdf noise.pdf);
is( ask($node,
		"SELECT string_agg(regexp_replace(uri, '.*/', ''), ' ' ORDER BY uri) FROM rag.chunks
			WHERE content LIKE '%Bread is baked%'"
	),
	'alias.md good.md',
	'a good file and a link to it are indexed');
is( ask($node,
		"SELECT count(*) FROM rag.documents WHERE uri ~ 'link|dangling|pipe'
			OR content LIKE '%swordfish%'"
	),
	'0',
	'links out of the folder, dangling links and pipes are skipped');
like(
	ask($node,
		"SELECT status, chunk_count, length(content) FROM rag.documents WHERE uri LIKE '%/line.txt'"
	),
	qr/^active\|2\d\d\d\|2000000$/,
	'a line of 2 MB is split');
is(ask($node, "SELECT count(*) FROM rag.chunks WHERE length(content) > 1000"),
	'0', 'a line of 2 MB is split into chunks of at most 1000 characters');
like(stored($node), qr/\A0\n0\n/, 'all documents with bad content have all their chunks');
configure($node, 'rag.max_file_size');

SKIP:
{
	my ($pdfs) = grep { -d } map { "$_/pdf" } $ENV{RAG_TEST_DATA} // '';
	skip 'there are no more PDFs in RAG_TEST_DATA', 2 unless defined $pdfs;
	create_folder_source($node, 'pdfs', $pdfs);
	sync_ok($node, 'pdfs', 'a folder with broken PDFs can be synced');
	like(stored($node), qr/\A0\n0\n/, 'all documents of the PDFs have all their chunks');
}

# -- paths
sub folder_fails
{
	my ($path, @expected) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	create_folder_source($node, 'wrong', $path);
	error_like(run_sql($node, "SELECT rag_sync('wrong')"), @expected);
	is(run_row($node, 'wrong', "phase, errors -> 0 ->> 'sqlstate'"),
		"Failed|$expected[0]", 'the run of a bad source records the error');
	$node->safe_psql('postgres', "SELECT rag_drop_source('wrong')");
	return;
}

mkdir "$outside/locked", 0000 or die $!;
folder_fails(
	"$outside/nowhere",
	'58P01',
	'"[^"]*/nowhere" does not exist',
	'on the database server',
	'a missing folder fails the sync');
folder_fails(
	"$outside/secret.md",
	'42809',
	'"[^"]*/secret.md" is not a folder',
	'on the database server',
	'a file instead of a folder fails the sync');
folder_fails(
	"$outside/locked", '42501',
	'permission denied',
	'operating system user',
	'an unreadable folder fails the sync');
chmod 0755, "$outside/locked";

# documents are kept if the whole folder disappears
rename $folder, "$folder-away" or die $!;
my $before = stored($node);
error_like(
	run_sql($node, "SELECT rag_sync('docs')"),
	'58P01',
	'does not exist',
	'database server',
	'a folder that has disappeared fails the sync');
is(stored($node), $before, 'a folder that has disappeared keeps its documents');
rename "$folder-away", $folder or die $!;

# -- roles
$node->safe_psql('postgres',
	'CREATE ROLE clerk LOGIN; GRANT rag_admin TO clerk; CREATE ROLE visitor LOGIN');
my $create = qq{SELECT rag_create_source('own', 'folder', '{"path": "$outside"}')};
error_like(
	run_sql($node, $create, user => 'clerk'),
	'42501',
	'permission denied to read files of the server',
	'pg_read_server_files',
	'a member of rag_admin without pg_read_server_files cannot create a folder source');
$node->safe_psql('postgres', 'GRANT pg_read_server_files TO clerk');
is(run_sql($node, $create, user => 'clerk')->{rc},
	0, 'a member of pg_read_server_files can create a folder source');
is(run_sql($node, "SELECT rag_sync('own')", user => 'clerk')->{rc},
	0, 'a member of pg_read_server_files can sync a folder source');
$node->safe_psql('postgres', 'REVOKE pg_read_server_files FROM clerk');
error_like(
	run_sql($node, "SELECT rag_sync('own')"),
	'42501', 'permission denied to read files',
	'pg_read_server_files',
	'no role can sync a folder source whose owner lost pg_read_server_files');
error_like(
	run_sql(
		$node,
		qq{SELECT rag_create_source('repo', 'git', '{"repositoryURL": "$outside"}')},
		user => 'clerk'),
	'42501',
	'permission denied to read a repository on the server',
	'superuser',
	'only superusers can create a source of a repository on the server');
error_like(
	run_sql($node, "SELECT rag_sync('docs')", user => 'visitor'),
	'42501', 'permission denied',
	undef, 'only superusers can sync a source of a repository on the server');
same_cluster($witness, 'bad files, folders and roles');

# -- databases
$node->safe_psql('postgres',
	"CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'");
error_like(
	run_sql($node, 'CREATE EXTENSION rag', database => 'latin'),
	'0A000',
	'encoding LATIN1 of the database is not supported by extension rag',
	'CREATE DATABASE',
	'CREATE EXTENSION requires a database with encoding UTF8');

# -- models
my $models = $node->safe_psql('postgres',
	"SELECT setting || '/rag/models' FROM pg_config WHERE name = 'SHAREDIR'");
my $name = 'all-MiniLM-L6-v2';
$node->safe_psql('postgres', "SELECT rag_create_collection('small')");
$node->safe_psql('postgres',
	"SELECT rag_add_document('Bread is baked in the morning.', 'bread', collection => 'small')");

# Returns a copy of the installed model whose files can be replaced.
sub model_copy
{
	my ($copy, %file) = @_;
	my $target = temp_folder() . "/$copy";
	mkdir $target or die $!;
	for my $path (glob "$models/$name/*")
	{
		my $file = $path =~ s{.*/}{}r;
		symlink $path, "$target/$file" or die $! unless exists $file{$file};
	}
	for my $file (grep { defined $file{$_} } keys %file)
	{
		write_file("$target/$file", $file{$file});
	}
	return $target;
}

sub head_of
{
	my ($file, $bytes) = @_;
	open my $in, '<:raw', "$models/$name/$file" or die "$file: $!";
	read $in, my $content, $bytes // 1e9;
	return $content;
}

sub model_fails
{
	my ($what, $dir, @expected) = @_;
	configure($node, 'rag.model_dir', $dir);
	error_like(run_sql($node, "SELECT rag_embed('hello')"), @expected, "rag_embed fails: $what");
	error_like(run_sql($node, "SELECT * FROM rag_search('bread', 'small', mode => 'vector')"),
		@expected, "rag_search fails: $what");
	error_like(run_sql($node, "SELECT rag_sync('docs')"), @expected, "rag_sync fails: $what");
	is(run_row($node, 'docs', "phase, errors -> 0 ->> 'sqlstate'"),
		"Failed|$expected[0]", 'the run records the error of the model');
	return;
}

model_fails('a model that is missing', "$outside/nowhere", '58P01', 'nowhere', 'model is a folder');
model_fails(
	'a model without its graph',
	model_copy($name, 'model_int8.onnx' => undef),
	'58P01', 'model_int8.onnx', '.');
model_fails(
	'a model whose graph is cut short',
	model_copy($name, 'model_int8.onnx' => head_of('model_int8.onnx', 1_000_000)),
	'F0000', 'model_int8.onnx', 'truncated');
model_fails(
	'a model whose tokenizer is cut short',
	model_copy($name, 'tokenizer.json' => head_of('tokenizer.json', 10_000)),
	'F0000', 'tokenizer.json', '.');
model_fails(
	'a model without config.json',
	model_copy($name, 'config.json' => undef),
	'58P01', 'config.json', '.');
model_fails(
	'a model whose config.json is of another',
	model_copy(
		$name, 'config.json' => head_of('config.json') =~ s/("hidden_size":\s*)384/${1}768/r),
	'F0000',
	'model_int8.onnx',
	'two different models');
same_cluster($witness, 'damaged models');

# the same files under another name, or in the other precision, are the same model
configure($node, 'rag.model_dir', model_copy('same-model'));
is($node->safe_psql('postgres', "SELECT uri FROM rag_search('bread', 'small')"),
	'bread', 'the same model in another folder can be used');
configure($node, 'rag.model_precision', 'fp32');
is($node->safe_psql('postgres', "SELECT uri FROM rag_search('bread', 'small')"),
	'bread', 'another precision of the same model can be used');
configure($node, 'rag.model_precision');

# Exchanges the numbers of words: the same weights, but other vectors.
sub other_vocabulary
{
	my $tokenizer = head_of('tokenizer.json');
	$tokenizer =~ s{("[a-z]+":\s*)(\d+)}{ $1 . ($2 < 2000 ? $2 : 2000 + ($2 + 3000) % 28000) }ge;
	return $tokenizer;
}
my $other = model_copy($name, 'tokenizer.json' => other_vocabulary());
configure($node, 'rag.model_dir', $other);
my @other = ('55000', 'collection "small" was embedded with another model', 'rag.model_dir');
error_like(run_sql($node, "SELECT * FROM rag_search('bread', 'small', mode => 'vector')"),
	@other, 'a search with a model other than the collection has is rejected');
error_like(run_sql($node, "SELECT rag_add_document('Rolls', 'rolls', collection => 'small')"),
	@other, 'a document is rejected with a model other than the collection has');
error_like(
	run_sql($node, "SELECT rag_sync('docs')"),
	'55000', 'another model',
	'rag.model_dir', 'a sync is rejected with a model other than the collection has');
$node->safe_psql('postgres', "SELECT rag_create_collection('new')");
is( $node->safe_psql(
		'postgres', "SELECT success FROM rag_add_document('Rolls', 'rolls', collection => 'new')"),
	't',
	'a new collection can use another model');
is( ask($node,
		"SELECT n.model = s.model, n.model_identity = s.model_identity
			FROM rag_internal.collection n, rag_internal.collection s
			WHERE n.name = 'new' AND s.name = 'small'"
	),
	't|f',
	'a new collection records another model of the same name');
configure($node, 'rag.model_dir');
is($node->safe_psql('postgres', "SELECT uri FROM rag_search('bread', 'small')"),
	'bread', 'a collection can be searched again with its own model');

# -- programs
configure($node, 'rag.onnxruntime_library', "$outside/nowhere.so");
my @runtime = ('58P01', 'could not find ONNX Runtime at "[^"]*/nowhere.so"', 'make install');
error_like(await_error($node, "SELECT rag_embed('hello')", '58P01'),
	@runtime, 'rag_embed fails without ONNX Runtime');
error_like(run_sql($node, "SELECT rag_sync('docs')"),
	@runtime, 'rag_sync fails without ONNX Runtime');
configure($node, 'rag.onnxruntime_library', "$outside/secret.md");
error_like(
	await_error($node, "SELECT rag_embed('hello')", '0A000'),
	'0A000', 'could not load ONNX Runtime',
	'make install', 'rag_embed fails with a file that is not a library');
configure($node, 'rag.onnxruntime_library');
await('the engine works again', sub { run_sql($node, "SELECT rag_embed('hello')")->{rc} == 0 });
same_cluster($witness, 'no ONNX Runtime');

# Workers of the server notice a changed setting a moment after sessions do. An engine that is
# killed keeps its socket for another moment.
sub await_error
{
	my ($node, $sql, $sqlstate) = @_;
	return await(
		"$sql fails with $sqlstate",
		sub { my $result = run_sql($node, $sql); $result->{err} =~ / \Q$sqlstate\E: / && $result });
}

sub engine_is_missing
{
	my ($node, $how) = @_;
	configure($node, 'rag.engine_path', "$outside/rag-engine");
	await('the engine has ended', sub { !engines($node) });
	my $from = -s $node->logfile;
	my @missing = ('58P01', 'could not start rag-engine', 'make install.*rag.engine_path');
	error_like(await_error($node, "SELECT rag_embed('hello')", '58P01'),
		@missing, "$how: rag_embed fails without rag-engine");
	error_like(run_sql($node, "SELECT * FROM rag_search('bread', 'small', mode => 'vector')"),
		@missing, 'rag_search')
	  for 1 .. 10;
	my $sync = run_sql($node, "SELECT rag_sync('docs')");
	error_like($sync, @missing, 'rag_sync');
	# a session waits up to 30 s for an engine that starts
	cmp_ok($sync->{seconds}, '<', 25, "$how: the error without rag-engine comes at once");
	my $log = PostgreSQL::Test::Utils::slurp_file($node->logfile, $from);
	cmp_ok(scalar(() = $log =~ /WARNING:  /g),
		'<', 10, "$how: the log is not flooded without rag-engine");
	configure($node, 'rag.engine_path');
	my $back = run_sql($node, "SELECT rag_embed('hello')");
	is($back->{rc}, 0, "$how: the next call works once rag-engine is installed")
	  or diag($back->{err});
	cmp_ok($back->{seconds}, '<', 25, "$how: the next call waits for less than a second");
	return;
}

engine_is_missing($node, 'preloaded');
same_cluster($witness, 'no rag-engine');
is(ask($node, "SELECT count(*) FROM rag.runs WHERE phase = 'Running'"),
	'0', 'no run is active after bad models and engines');
sync_ok($node, 'docs', 'all documents are synced in the end');
$node->stop;

my $plain = rag_node('bad_input_no_preload', preload => 0);
create_folder_source($plain, 'docs', $outside);
$plain->safe_psql('postgres', "SELECT rag_create_collection('small')");
$plain->safe_psql('postgres',
	"SELECT rag_add_document('Bread is baked in the morning.', 'bread', collection => 'small')");
engine_is_missing($plain, 'not preloaded');
$plain->stop;

done_testing();
