# Bundles in folders of the server: exact round trips with sources, what an export leaves behind if
# it fails, hostile folders, and a catalog that is the same after a collection was dropped.
use strict;
use warnings;
use Digest::SHA qw(sha256_hex);
use File::Path qw(remove_tree);
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;

my $folder = temp_folder();
my $node = rag_node('bundle', conf => "rag.bundle_folders = '/nonexistent, $folder'\n");
my $sql = sub { return $node->safe_psql('postgres', @_) };

# Everything that the extension stores, without what a new collection counts up.
my @tables = (
	qw(rag.documents rag.chunks),
	map { "rag_internal.$_" }
	  qw(collection collection_grant source run run_error run_total document_digest knowledge_item
	  content_change embedding_place table_change table_state secret));
my $catalog = "
	SELECT 'relation', n.nspname || '.' || c.relname FROM pg_class c
	JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname NOT LIKE 'pg\\_%'
	UNION ALL SELECT 'toast', count(*)::text FROM pg_class WHERE relkind = 't'
	UNION ALL SELECT 'trigger', tgname FROM pg_trigger
	UNION ALL SELECT 'type', typname FROM pg_type WHERE typname !~ '^_?pg_toast'
	UNION ALL SELECT 'statistics', coalesce(collection, '-') FROM rag.search_stats
	UNION ALL SELECT 'operations', collection FROM rag_internal.operation_statistics()
	WHERE collection IS NOT NULL
	UNION ALL " . join(' UNION ALL ', map { "SELECT 'rows', '$_ ' || count(*) FROM $_" } @tables)
  . ' ORDER BY 1, 2';
my $files = sub {
	return join "\n", sort grep { !/^pg_rag\/(work|model_folders)/ }
	  split /\n/, `cd '@{[ $node->data_dir ]}' && find pg_rag -type f`;
};

# All rows of a collection.
my $rows = sub {
	my ($collection) = @_;
	return $sql->(
		qq{SELECT to_jsonb(d) FROM rag.documents d WHERE collection = '$collection' ORDER BY 1;
		SELECT to_jsonb(c) - 'embedding', encode(rag_internal.vector_send(embedding), 'hex')
		FROM rag.chunks c WHERE collection = '$collection' ORDER BY 1;
		SELECT to_jsonb(d) FROM rag_internal.document_digest d WHERE collection = '$collection'
			ORDER BY 1;
		SELECT to_jsonb(k) FROM rag.knowledge k WHERE collection = '$collection' ORDER BY 1;
		SELECT to_jsonb(c) - '{serial,updated_at,imported}'::text[] FROM rag_internal.collection c
			WHERE name = '$collection';
		SELECT to_jsonb(s) FROM rag_search('bread', '$collection', top_k => 5) s}
	);
};

$sql->(q{SELECT rag_add_document('Warm up.', 'x'); SELECT count(*) FROM rag_search('x')});
my ($catalog_before, $files_before) = ($sql->($catalog), $files->());

my $documents = temp_folder();
write_file("$documents/bread.md", "---\nowner: baker\n---\n# Bread\n\nBread is baked early.\n");
write_file("$documents/rolls.md", "# Rolls\n\nRolls are baked at noon.\n");
write_file("$documents/empty.pdf", "no pdf");
$sql->(
	q{SELECT rag_create_retriever('exact', '{"storageConfig": {"type": "flat"}}');
	SELECT rag_create_collection('bakery', retriever => 'exact', chunk_size => 200)});
$sql->(
	qq{SELECT rag_create_source('oven', 'folder', '{"path": "$documents"}', 'bakery',
		schedule => '\@yearly', drift_policy => 'manual');
	SELECT rag_sync('oven')}
);
$sql->(
	q{SELECT rag_add_document('A note on bread.', 'note', collection => 'bakery', tags => '{a,b}');
	SELECT rag_create_knowledge(3, 'Shop', 'https://example.org/', 'website',
		collection => 'bakery');
	SELECT rag_create_knowledge(4, 'Oven', '/srv/oven', 'folder', collection => 'bakery',
		paths => '{*.md,"!a b/"}');
	SELECT rag_upsert_chunks((SELECT jsonb_agg(jsonb_build_object(
		'chunk_id', gen_random_uuid(), 'uri', 'given', 'text', 'chunk ' || i, 'embedding',
		(SELECT jsonb_agg(sin(i * j)) FROM generate_series(1, 384) j)))
		FROM generate_series(1, 800) i), 'bakery')}
);
my $before = $rows->('bakery');

# -- a round trip
my $exported = $sql->(qq{SELECT * FROM rag_export_collection('bakery', '$folder/one')});
my @names = sort map { m{([^/]+)$} } glob "$folder/one/*";
is_deeply(
	\@names,
	[
		qw(chunks.jsonl corpus.jsonl digests.jsonl embeddings.npy knowledge.jsonl metadata.json
		  sources.yaml)
	],
	'a bundle has its files');
my $size = 0;
$size += -s $_ for glob "$folder/one/*";
my ($count) = $before =~ /"chunk_count": 800/ ? 803 : 0;
like($exported, qr/^\d+\|$count\|$size$/, 'an export returns the numbers of chunks and bytes');
is((stat "$folder/one")[2] & 07777, 0700, 'only the server can read the folder');
unlike(slurp_file("$folder/one/sources.yaml"), qr/status|creationTimestamp/,
	'the manifest has no status');
like(
	$sql->(q{SELECT action FROM rag_apply_manifest($m$}
		  . slurp_file("$folder/one/sources.yaml") . '$m$)'),
	qr/^unchanged\nunchanged$/, 'rag_apply_manifest takes the manifest, which changes nothing');

$sql->(q{SELECT rag_drop_collection('bakery', with_sources => true);
	SELECT rag_drop_retriever('exact')});
is($sql->($catalog), $catalog_before, 'a dropped collection leaves nothing in the catalog');
is($files->(), $files_before, 'a dropped collection leaves no file');

# -- what a bundle is of
my $info = qq{SELECT collection, model, dimensions, documents, errors, chunks, sources, retriever,
	bytes + length(pg_read_file('$folder/one/metadata.json')), rag_version =
		(SELECT extversion FROM pg_extension WHERE extname = 'rag'), format_version,
	created_at < updated_at, exported_at BETWEEN updated_at AND now()};
for my $verify ('false', 'true')
{
	is( $sql->("$info FROM rag_bundle_info('$folder/one', $verify)"),
		"bakery|all-MiniLM-L6-v2|384|4|1|$count|{oven}|exact|$size|t|1|t|t",
		"rag_bundle_info returns the metadata, verify => $verify");
}
is($sql->($catalog), $catalog_before, 'rag_bundle_info changes nothing');

my $imported = $sql->(
	qq{SELECT * FROM rag_import_collection('$folder/one', with_sources => true)});
like($imported, qr/^bakery\|\d+\|$count\|\d+$/, 'an import returns its counts');
is($rows->('bakery'), $before, 'every row is the same after the import');
is($sql->(q{SELECT drifted FROM rag_check_drift('oven')}), 'f', 'there is no drift');
$sql->(qq{SELECT rag_export_collection('bakery', '$folder/two')});
for my $name (grep { $_ ne 'metadata.json' } @names)
{
	ok(slurp_file("$folder/one/$name") eq slurp_file("$folder/two/$name"),
		"$name is the same when it is exported again");
}
$sql->(q{SELECT rag_sync('oven')});
is( $sql->(
		q{SELECT chunks_embedded, documents_deleted FROM rag.runs WHERE source = 'oven'
			ORDER BY run_id DESC LIMIT 1}),
	'0|0',
	'a sync after the import embeds nothing');

# -- another program reads the embeddings
my $npy = slurp_file("$folder/one/embeddings.npy");
my $length = unpack 'v', substr $npy, 8, 2;
like(substr($npy, 0, 10 + $length),
	qr/\A\x93NUMPY\x01\x00..
		\{'descr':\ '<f4',\ 'fortran_order':\ False,\ 'shape':\ \(803,\ 384\),\ \}\ *\n\z/sx,
	'the header is that of numpy.lib.format');
is((10 + $length) % 64, 0, 'the numbers begin at a multiple of 64 bytes');
is(length($npy), 10 + $length + 803 * 384 * 4,
	'the numbers follow the header to the end of the file');
SKIP:
{
	skip 'no numpy', 1 if system('python3 -c "import numpy" 2>/dev/null') != 0;
	my $load = "import numpy; a = numpy.load('$folder/one/embeddings.npy')";
	my $sum = `python3 -c "$load; print(a.dtype, a.shape)"`;
	is($sum, "float32 (803, 384)\n", 'numpy reads the embeddings');
}

# -- without sources
$sql->(q{SELECT rag_drop_collection('bakery', with_sources => true)});
$sql->(qq{SELECT rag_import_collection('$folder/one', 'other')});
is( $sql->(
		q{SELECT former_source, count(*) FROM rag.documents
			WHERE collection = 'other' AND former_source IS NOT NULL GROUP BY 1}),
	'oven|2',
	'without sources, documents are those of a former source');
is($sql->(q{SELECT count(*) FROM rag_internal.document_digest WHERE collection = 'other'}),
	'0', 'and have no digests');

# -- a failed export leaves nothing
my $listing = sub { return join ' ', sort map { m{([^/]+)$} } glob "$folder/{*,.rag*}" };
my $present = $listing->();
error_like(run_sql($node, qq{SELECT rag_export_collection('other', '$folder/one')}),
	'58P02', 'already exists', 'does not exist', 'a folder is never replaced');
error_like(
	run_sql($node,
		qq{SET statement_timeout = 1; SELECT rag_export_collection('other', '$folder/late')}),
	'57014', 'timeout', undef, 'an export can be cancelled');
chmod 0555, $folder;
SKIP:
{
	skip 'root writes everywhere', 1 if $> == 0;
	error_like(run_sql($node, qq{SELECT rag_export_collection('other', '$folder/denied')}),
		'42501', 'could not create folder', 'operating system user', 'the folder must be writable');
}
chmod 0755, $folder;
is($listing->(), $present, 'no failed export leaves a file');

# -- hostile folders
$sql->(q{SELECT rag_drop_collection('other')});
symlink "$folder/one", "$folder/link" or die;
symlink '/', "$folder/root" or die;
for my $case (
	[ "$folder/link", 'a symbolic link' ],
	[ "$folder/root/tmp/x", 'a symbolic link on the way' ])
{
	my ($path, $what) = @$case;
	for my $function ('rag_import_collection', 'rag_bundle_info')
	{
		like(run_sql($node, qq{SELECT $function('$path')})->{err},
			qr/ERROR:  42809: could not open folder/, "$what is not followed by $function");
	}
}
error_like(run_sql($node, qq{SELECT rag_export_collection('default', '$folder/root/tmp/x')}),
	'42809', 'could not open folder', undef, 'an export follows no link either');
# the SQLSTATE and the message
sub report_of
{
	my ($result) = @_;
	return join '', $result->{err} =~ /ERROR:\s+(.*)/;
}

my $damage = sub {
	my ($name, $change) = @_;
	remove_tree("$folder/bad");
	system('cp', '-r', "$folder/one", "$folder/bad") == 0 or die;
	$change->("$folder/bad/$name");
	my $import = run_sql($node, qq{SELECT rag_import_collection('$folder/bad', 'bad')});
	my $verify = run_sql($node, qq{SELECT rag_bundle_info('$folder/bad', verify => true)});
	is(report_of($verify), report_of($import),
		"rag_bundle_info has the error of the import: $name");
	# only the metadata are read
	my $read = run_sql($node, qq{SELECT rag_bundle_info('$folder/bad')});
	is(report_of($read), $name eq 'metadata.json' ? report_of($import) : '',
		"rag_bundle_info reads the metadata: $name");
	return $import;
};
error_like(
	$damage->('corpus.jsonl', sub { unlink $_[0]; symlink '/etc/passwd', $_[0] }),
	'42809', 'could not open corpus', undef, 'a link as a file is refused');
error_like(
	$damage->('chunks.jsonl', sub { unlink $_[0]; system('mkfifo', $_[0]) }),
	'42809', 'not a regular file', undef, 'a pipe is refused and never waited for');
error_like(
	$damage->('embeddings.npy', sub { truncate $_[0], 1000 }),
	'22P04', 'invalid file', undef, 'a truncated file is an error');
error_like(
	$damage->('knowledge.jsonl', sub { unlink $_[0] }),
	'58P01', 'could not open knowledge', undef, 'a missing file is an error');
error_like(
	$damage->('digests.jsonl', sub { append_to_file($_[0], '{') }),
	'22P04', 'invalid file digests', undef, 'a file that was added to is an error');
error_like(
	$damage->('metadata.json', sub { append_to_file($_[0], ' ' x 2_000_000) }),
	'22P04', 'invalid file metadata', undef, 'metadata have a maximum size');
for my $cut (0, 1, 100, (-s "$folder/one/metadata.json") - 3)
{
	error_like($damage->('metadata.json', sub { truncate $_[0], $cut }),
		'22P04', 'invalid file metadata', undef, "metadata of $cut bytes are an error");
}
is($sql->(q{SELECT count(*) FROM rag.collections WHERE name = 'bad'}),
	'0', 'nothing of a damaged bundle is imported');

# -- ids by which the next sync would delete documents of others
for my $name ('corpus.jsonl', 'digests.jsonl')
{
	remove_tree("$folder/forged");
	system('cp', '-r', "$folder/one", "$folder/forged") == 0 or die;
	my @lines = split /^/, slurp_file("$folder/forged/$name");
	my ($forged) = grep { /"source":"oven"/ } @lines;
	$forged =~ s/("document_id":"[^"]*)(.)"/$1 . ($2 eq '0' ? '1' : '0') . '"'/e;
	for my $line (@lines)
	{
		($line, $forged) = ($forged, '') if $forged && $line =~ /"source":"oven"/;
	}
	write_file("$folder/forged/$name", join '', @lines);
	my $sum = sha256_hex(join '', @lines);
	my $metadata = slurp_file("$folder/forged/metadata.json");
	$metadata =~ s/("\Q$name\E":\s*\{[^}]*"sha256":\s*")[0-9a-f]+/$1$sum/ or die;
	write_file("$folder/forged/metadata.json", $metadata);
	my $import = "SELECT rag_import_collection('$folder/forged', with_sources => true)";
	like(
		run_sql($node, $import)->{err},
		qr/ERROR:  22P04.*invalid file $name.*not made from its source and uri/s,
		"$name cannot have ids of other documents");
}

# -- another cluster
my $other = rag_node('elsewhere', conf => "rag.bundle_folders = '$folder'\n");
my $moved = $other->safe_psql('postgres',
	qq{SELECT collection, chunks FROM rag_import_collection('$folder/one', with_sources => true);
	SELECT count(*) > 0 FROM rag_search('bread', 'bakery')});
is($moved, "bakery|803\nt", 'another cluster imports the bundle with its sources');

done_testing();
